"""Exception handlers for records that cannot be read, processed or written (KIP-1033, KIP-1034).

A handler answers `Response.resume()`, which drops the record, or `Response.fail()`, which ends the worker. Both may
name records for a dead-letter topic. With `errors.dead.letter.queue.topic.name` the handlers of this module send the
source record there, with Kafka Streams' headers.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from ottla.streams.errors import StreamsError
from ottla.streams.record import NO_TIMESTAMP, Headers, Record

__all__ = [
    "DefaultProductionExceptionHandler",
    "DeserializationExceptionHandler",
    "ErrorHandlerContext",
    "Handlers",
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "OutputRecord",
    "ProcessingExceptionHandler",
    "ProductionExceptionHandler",
    "Response",
    "Result",
    "SerializationExceptionOrigin",
]

_log = logging.getLogger(__name__)


class OutputRecord(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    # None: by the hash of the key.
    partition: int | None = None
    # Where the record was written; set only for a user's production handler.
    origin: ErrorHandlerContext | None = None


class Result(Enum):
    RESUME = "resume"
    FAIL = "fail"


class SerializationExceptionOrigin(Enum):
    KEY = "key"
    VALUE = "value"


class Response(NamedTuple):
    result: Result
    dead_letter_queue_records: tuple[OutputRecord, ...] = ()

    @classmethod
    def resume(cls, dead_letter_queue_records: Iterable[OutputRecord] = ()) -> Response:
        return cls(Result.RESUME, tuple(dead_letter_queue_records))

    @classmethod
    def fail(cls, dead_letter_queue_records: Iterable[OutputRecord] = ()) -> Response:
        return cls(Result.FAIL, tuple(dead_letter_queue_records))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandlerContext:
    """Where an error happened. Topic, partition and offset are those of the source record; none in punctuations."""

    task_id: str
    processor_node_id: str
    topic: str | None = None
    partition: int = -1
    offset: int = -1
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()
    source_raw_key: bytes | None = None
    source_raw_value: bytes | None = None

    def __str__(self) -> str:
        where = "a punctuation" if self.topic is None else f"{self.topic}-{self.partition} at offset {self.offset}"
        return f"task {self.task_id}, node {self.processor_node_id}, {where}"


class _Handler:
    """`dead_letter_topic` is the configured topic, or None."""

    dead_letter_topic: str | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once with the configuration of the application."""
        self.dead_letter_topic = configs.get("errors.dead.letter.queue.topic.name") or None

    def dead_letters(self, context: ErrorHandlerContext, error: Exception) -> tuple[OutputRecord, ...]:
        """The source record for the dead-letter topic, if there is one configured."""
        if self.dead_letter_topic is None:
            return ()
        message = str(error)
        headers = {
            "exception": f"{type(error).__module__}.{type(error).__qualname__}: {message}",
            "message": message,
            "stacktrace": "".join(traceback.format_exception(error)),
            "topic": context.topic,
            "partition": str(context.partition),
            "offset": str(context.offset),
        }
        return (
            OutputRecord(
                self.dead_letter_topic,
                context.source_raw_key,
                context.source_raw_value,
                context.timestamp,
                tuple(
                    (f"__streams.errors.{name}", None if text is None else text.encode())
                    for name, text in headers.items()
                ),
            ),
        )


class DeserializationExceptionHandler(_Handler):
    """For records whose key or value a serde cannot read."""

    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        """`record` is the source record, with key and value as bytes."""
        raise NotImplementedError


class ProcessingExceptionHandler(_Handler):
    """For exceptions of processors, functions of the DSL, and punctuations, whose record is None."""

    def handle_error(self, context: ErrorHandlerContext, record: Record | None, error: Exception) -> Response:
        raise NotImplementedError


class ProductionExceptionHandler(_Handler):
    """For records that cannot be written."""

    def handle_error(self, context: ErrorHandlerContext, record: OutputRecord, error: Exception) -> Response:  # noqa: ARG002
        """A broker does not take the record, for instance because it is too large."""
        return Response.fail(self.dead_letters(context, error))

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: Record,  # noqa: ARG002
        error: Exception,
        origin: SerializationExceptionOrigin,  # noqa: ARG002
    ) -> Response:
        """A serde cannot write the key or the value; `record` has them as objects."""
        return Response.fail(self.dead_letters(context, error))


class LogAndFailExceptionHandler(DeserializationExceptionHandler):
    """The default."""

    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:  # noqa: ARG002
        _log.error("A record cannot be deserialized (%s).", context, exc_info=error)
        return Response.fail(self.dead_letters(context, error))


class LogAndContinueExceptionHandler(DeserializationExceptionHandler):
    def handle_error(self, context: ErrorHandlerContext, record: Any, error: Exception) -> Response:  # noqa: ARG002
        _log.warning("A record that cannot be deserialized is skipped (%s): %r", context, error)
        return Response.resume(self.dead_letters(context, error))


class LogAndFailProcessingExceptionHandler(ProcessingExceptionHandler):
    """The default."""

    def handle_error(self, context: ErrorHandlerContext, record: Record | None, error: Exception) -> Response:  # noqa: ARG002
        _log.error("A record cannot be processed (%s).", context, exc_info=error)
        return Response.fail(self.dead_letters(context, error))


class LogAndContinueProcessingExceptionHandler(ProcessingExceptionHandler):
    def handle_error(self, context: ErrorHandlerContext, record: Record | None, error: Exception) -> Response:  # noqa: ARG002
        _log.warning("A record that cannot be processed is skipped (%s): %r", context, error)
        return Response.resume(self.dead_letters(context, error))


class DefaultProductionExceptionHandler(ProductionExceptionHandler):
    """Fails."""


_BUILT_IN: dict[str, type[_Handler]] = {
    handler.__name__: handler
    for handler in (
        LogAndFailExceptionHandler,
        LogAndContinueExceptionHandler,
        LogAndFailProcessingExceptionHandler,
        LogAndContinueProcessingExceptionHandler,
        DefaultProductionExceptionHandler,
    )
}
_JAVA = "org.apache.kafka.streams.errors."


class Handlers(NamedTuple):
    """The handlers of an application."""

    deserialization: DeserializationExceptionHandler
    processing: ProcessingExceptionHandler
    production: ProductionExceptionHandler

    @property
    def catches_processing(self) -> bool:
        """False for the default: exceptions then end the worker without a try at every node."""
        return type(self.processing) is not LogAndFailProcessingExceptionHandler

    @property
    def sees_records(self) -> bool:
        """True if a handler may skip single records after they were deserialized: columns have no single records."""
        return self.catches_processing or self.handles_production

    @property
    def handles_production(self) -> bool:
        return type(self.production) is not DefaultProductionExceptionHandler

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Handlers:
        """Handlers are given as classes, as objects, or by the names of Kafka Streams' handlers."""

        def create(kind: type[_Handler], default: type[_Handler], *keys: str) -> Any:
            key = next((key for key in keys if properties.get(key) is not None), keys[0])
            setting = properties.get(key, default)
            if isinstance(setting, str):
                setting = _BUILT_IN.get(setting.removeprefix(_JAVA), setting)
            handler = setting() if isinstance(setting, type) else setting
            if not isinstance(handler, kind):
                known = ", ".join(name for name, handler_class in _BUILT_IN.items() if issubclass(handler_class, kind))
                raise StreamsError(
                    f"{key}={setting!r} is no {kind.__name__}; give a class, an object, or the name of one of Kafka "
                    f"Streams' handlers ({known})."
                )
            handler.configure(properties)
            return handler

        return cls(
            create(
                DeserializationExceptionHandler,
                LogAndFailExceptionHandler,
                "deserialization.exception.handler",
                "default.deserialization.exception.handler",
            ),
            create(ProcessingExceptionHandler, LogAndFailProcessingExceptionHandler, "processing.exception.handler"),
            create(
                ProductionExceptionHandler,
                DefaultProductionExceptionHandler,
                "production.exception.handler",
                "default.production.exception.handler",
            ),
        )
