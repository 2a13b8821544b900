"""`ottla.streams`: the Kafka Streams programming model in Python. See README.md."""

from typing import TYPE_CHECKING, Any

from ottla.streams.driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver
from ottla.streams.dsl import StreamsBuilder
from ottla.streams.dsl.global_table import GlobalKTable
from ottla.streams.dsl.options import (
    Branched,
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Printed,
    Produced,
    Repartitioned,
    StreamJoined,
    Suppressed,
    TableJoined,
)
from ottla.streams.dsl.stream import KStream
from ottla.streams.dsl.table import KTable
from ottla.streams.dsl.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from ottla.streams.errors import (
    FailedProcessingError,
    MissingSourceTopicError,
    StoreNotFoundError,
    StreamsError,
    TopologyError,
)
from ottla.streams.machine import FixedKeyProcessor, Processor, ProcessorContext, PunctuationType
from ottla.streams.machine.column_function import columns
from ottla.streams.machine.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
    ProcessingExceptionHandler,
    ProductionExceptionHandler,
    Response,
    SerializationExceptionOrigin,
)
from ottla.streams.operators.emission import EmitStrategy
from ottla.streams.record import Record, ValueAndTimestamp, Window, Windowed
from ottla.streams.serdes import Serde, Serdes, SessionWindowedSerde, TimeWindowedSerde
from ottla.streams.state import Stores, StoreSpecification, StoreType
from ottla.streams.topology import Topology

if TYPE_CHECKING:
    from ottla.streams.runtime import Application, State, StateRestoreListener, UncaughtExceptionResponse

__all__ = [
    "Application",
    "Branched",
    "BufferConfig",
    "Consumed",
    "DefaultProductionExceptionHandler",
    "DeserializationExceptionHandler",
    "EmitStrategy",
    "ErrorHandlerContext",
    "FailedProcessingError",
    "FixedKeyProcessor",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "KStream",
    "KTable",
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "Materialized",
    "MissingSourceTopicError",
    "Named",
    "Printed",
    "ProcessingExceptionHandler",
    "Processor",
    "ProcessorContext",
    "Produced",
    "ProductionExceptionHandler",
    "PunctuationType",
    "Record",
    "Repartitioned",
    "Response",
    "Serde",
    "Serdes",
    "SerializationExceptionOrigin",
    "SessionWindowedSerde",
    "SessionWindows",
    "SlidingWindows",
    "State",
    "StateRestoreListener",
    "StoreNotFoundError",
    "StoreSpecification",
    "StoreType",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsError",
    "Suppressed",
    "TableJoined",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "TimeWindowedSerde",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "UncaughtExceptionResponse",
    "UnlimitedWindows",
    "ValueAndTimestamp",
    "Window",
    "Windowed",
    "columns",
]


def __getattr__(name: str) -> Any:
    """Running applications need Arrow; topologies and their tests do not."""
    if name in ("Application", "State", "StateRestoreListener", "UncaughtExceptionResponse"):
        from ottla.streams import runtime

        return getattr(runtime, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
