"""Source and sink connectors: what their authors implement, and the values that a worker hands to them."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ottla.connect.api.config_definitions import ConfigValue
from ottla.connect.api.plugin import Plugin

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "Batch",
    "Connector",
    "Delivery",
    "DeliveryClaim",
    "JsonScalar",
    "OffsetRange",
    "ReadLimit",
    "SinkConnector",
    "SinkWriter",
    "SourceConnector",
    "SourceOffset",
    "SourcePartition",
    "SourceReader",
    "Task",
]

# Connect's maps: JSON objects with values that JSON can hold.
JsonScalar = str | int | float | bool | None
SourcePartition = Mapping[str, JsonScalar]
SourceOffset = Mapping[str, JsonScalar]


class Delivery(enum.Enum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


@dataclass(frozen=True, slots=True)
class DeliveryClaim:
    """What a connector promises, and under which condition, in a sentence for its users."""

    delivery: Delivery
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One share of a connector's work. `config` is what `plan` gave for it, with secrets filled in."""

    connector: str
    number: int
    config: Mapping[str, str]
    # The number of tasks that the connector has.
    count: int = 1

    @property
    def id(self) -> str:
        return f"{self.connector}-{self.number}"


class OffsetRange(NamedTuple):
    """Records of one topic partition: from `start` up to but not including `end`."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Which records a sink is to write. The same batch comes again after a crash, with the same id and ranges.

    `id` counts the batches of a task from 0 and goes on over restarts of the task and moves to other workers. When the
    tasks of a connector are divided anew, or its offsets are changed, `epoch` is another one and `id` begins anew.
    """

    id: int
    epoch: str
    ranges: tuple[OffsetRange, ...]
    task: Task

    @property
    def identity(self) -> str:
        """A name for this batch of this connector, safe in file names: what an idempotent target remembers."""
        return f"{self.task.connector}-{self.task.number}-{self.epoch}-{self.id:020d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit:
    """How much one batch may hold. A reader keeps to it as well as it can, and never returns nothing because of it."""

    records: int = 500_000
    bytes: int = 64 * 1024 * 1024


class Connector(Plugin):
    """Divides work into tasks. Subclass `SourceConnector` or `SinkConnector`."""

    claim: ClassVar[DeliveryClaim]

    @abstractmethod
    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """The settings of each task, at most `max_tasks` of them. Secrets are filled in; what is returned is stored.

        Called at the start, after every change of the configuration, and when `changed` says so.
        """

    def changed(self, config: Mapping[str, str]) -> bool:
        """Whether the work divides differently now, for example because tables came. Asked every few seconds."""
        return False

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        """Further checks, of settings that depend on each other: appends to `errors` of the values concerned."""

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, JsonScalar], SourceOffset | None]]
    ) -> bool:
        """Called before offsets are changed from outside (None deletes). Raise ConnectError to refuse.

        True says that the connector has looked at them; False that they are stored as they are.
        """
        return False


class SourceConnector(Connector):
    """Brings data into topics. Implement `plan` and one of `reader` and `stream`."""

    claim: ClassVar[DeliveryClaim] = DeliveryClaim(Delivery.EXACTLY_ONCE)

    def reader(self, task: Task) -> SourceReader:
        """A reader for a task. Called in the driver and in executors: it must give an equal reader in each."""
        raise NotImplementedError(f"{type(self).__name__} has no reader")

    def stream(self, task: Task, spark: SparkSession) -> DataFrame | None:
        """A streaming DataFrame instead of a reader, for what Spark can read already. None when there is a reader.

        Offsets are then Spark's own and live in the checkpoint directory of the task (`checkpoint.location`), not in
        the offset topic: a worker that takes the task over needs to reach that directory.
        """
        return None


class SourceReader(ABC):
    """Reads ranges of source partitions."""

    @abstractmethod
    def partitions(self) -> Sequence[SourcePartition]:
        """What there is to read now. Asked before each batch, so new ones may come and old ones go."""

    @abstractmethod
    def schema(self, partition: SourcePartition) -> str | StructType:
        """The frame that `read` gives for this source partition: columns of the table above, as Spark's DDL or type.

        Asked before each batch. Source partitions with different schemas are different frames for transforms and
        converters, and come together again in one transaction.
        """

    @abstractmethod
    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        """Up to where the next batch is to read; `start` itself (or None) when there is nothing new."""

    @abstractmethod
    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows after `start` up to and with `end`, in order; the same rows each time it is asked."""

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Called when everything up to `offset` is in the topics: now the source may forget it."""

    def close(self) -> None:
        """The task ends here."""


class SinkConnector(Connector):
    """Takes records out of topics. Implement `writer`; each task has the whole work unless `plan` says otherwise.

    The worker divides the partitions of `topics` (or `topics.regex`) among the tasks; `plan` only gives settings.
    """

    claim: ClassVar[DeliveryClaim] = DeliveryClaim(Delivery.AT_LEAST_ONCE)

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """As many equal tasks as allowed."""
        return [dict(config) for _ in range(max_tasks)]

    @abstractmethod
    def writer(self, task: Task) -> SinkWriter:
        """A writer for a task, in the driver."""


class SinkWriter(ABC):
    """Writes batches to the target."""

    # Which columns `write` looks at, where that is not all of them: others may be missing, and cost nothing.
    columns: ClassVar[tuple[str, ...] | None] = None

    @abstractmethod
    def write(self, frame: DataFrame, batch: Batch) -> None:
        """Writes all of `frame`, and returns when it is safe where it went.

        The frame is lazy: an action on it reads the topics. It gives the same rows each time, in any number of Spark
        partitions; rows of one topic partition are in one of them, in order of `offset`, unless a transform mixed them.
        """

    def stored_offsets(self) -> Mapping[tuple[str, int], int]:
        """Where the target says each topic partition is to be read next, when it keeps offsets with the data.

        They go before those of the consumer group. Topic partitions that are not named start where the group is.
        """
        return {}

    def forget(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The topics of these partitions were deleted and made again: offsets that the target has of them are void."""

    def close(self) -> None:
        """The task ends here."""
