"""Source and sink connectors: the classes that authors implement, and the values that a worker passes to them."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    "TaskWorker",
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
    """The delivery guarantee of a connector, and its condition as a sentence for users."""

    delivery: Delivery
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a connector. `config` is what `plan` returned for it, with secrets filled in."""

    connector: str
    number: int
    config: Mapping[str, str]
    # The number of the connector's tasks.
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
    """The records that a sink has to write. After a crash the batch is repeated with the same id and ranges.

    `id` counts the batches of a task from 0, across restarts of the task and moves to other workers. When the number of
    tasks changes, or the offsets are altered, `epoch` changes and `id` starts from 0 again.
    """

    id: int
    epoch: str
    ranges: tuple[OffsetRange, ...]
    task: Task

    @property
    def identity(self) -> str:
        """The unique name of this batch, safe in file names. Idempotent targets store it."""
        return f"{self.task.connector}-{self.task.number}-{self.epoch}-{self.id:020d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit:
    """The size of a batch. Readers keep to it approximately, and never return an empty batch because of it."""

    records: int = 500_000
    bytes: int = 64 * 1024 * 1024


class Connector(Plugin):
    """Splits the work into tasks. Subclass `SourceConnector` or `SinkConnector`."""

    claim: ClassVar[DeliveryClaim]

    @abstractmethod
    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """The settings of the tasks, at most `max_tasks`. `config` has its secrets filled in; the result is stored.

        Called at the start, after every change of the configuration, and when `changed` returns True.
        """

    def changed(self, config: Mapping[str, str]) -> bool:
        """True if `plan` would give other tasks now, for example for new tables. Called every few seconds."""
        return False

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        """Checks settings that depend on each other, and appends to the `errors` of their values."""

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, JsonScalar], SourceOffset | None]]
    ) -> bool:
        """Called before offsets are altered over REST (None deletes an offset). Raise ConnectError to refuse.

        Returns True if the connector has checked the offsets.
        """
        return False


class SourceConnector(Connector):
    """Brings data into topics. Implement `plan` and one of `reader`, `stream` and `worker`."""

    claim: ClassVar[DeliveryClaim] = DeliveryClaim(Delivery.EXACTLY_ONCE)

    def reader(self, task: Task) -> SourceReader:
        """A reader for a task. Called in the driver and in executors; the readers must be equal."""
        raise NotImplementedError(f"{type(self).__name__} has no reader")

    def stream(self, task: Task, spark: SparkSession) -> DataFrame | None:
        """A streaming DataFrame, for systems that Spark can read already. None if the connector has a reader.

        Spark keeps the offsets of a stream in the checkpoint directory of the task (`checkpoint.location`), not in the
        offset topic: every worker that may run the task must reach that directory.
        """
        return None

    def worker(self, task: Task, transactional_id: str) -> TaskWorker | None:
        """A worker that reads and writes by itself, without transforms and converters. None if there is a reader.

        It writes under the transactional id, by which Connect fences it when another worker takes the task over.
        """
        return None


class TaskWorker(ABC):
    """A task that reads and writes by itself, in its own thread."""

    @abstractmethod
    def run(self, should_stop: Callable[[], bool]) -> None:
        """Works until it is stopped or paused. Called again after a pause, and after a failure that may pass."""


class SourceReader(ABC):
    """Reads ranges of source partitions."""

    @abstractmethod
    def partitions(self) -> Sequence[SourcePartition]:
        """The source partitions. Called before every batch, so partitions may come and go."""

    @abstractmethod
    def schema(self, partition: SourcePartition) -> str | StructType:
        """The schema of what `read` yields for this source partition, as DDL or as Spark's type.

        `ottla.connect.api` lists the columns. Called before every batch. Partitions with different schemas become
        different frames for transforms and converters, and are written in the same transaction.
        """

    @abstractmethod
    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        """The offset where the next batch ends; `start` if there is no new data."""

    @abstractmethod
    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows after `start` up to and including `end`, in order. Every call yields the same rows."""

    def waits_for(self) -> str | None:
        """What has to happen before there is anything to read, such as a file that does not exist yet; else None.

        Called when there is no data. It is logged when it changes, and shown as the task's progress.
        """
        return None

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Called when all rows up to `offset` are in the topics: the source may discard them."""

    def close(self) -> None:
        """Called when the task ends."""


class SinkConnector(Connector):
    """Writes records of topics to another system. Implement `writer`.

    The worker assigns the partitions of `topics` (or `topics.regex`) to the tasks; `plan` only gives their settings.
    """

    claim: ClassVar[DeliveryClaim] = DeliveryClaim(Delivery.AT_LEAST_ONCE)

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """`max_tasks` tasks with the same settings."""
        return [dict(config) for _ in range(max_tasks)]

    @abstractmethod
    def writer(self, task: Task) -> SinkWriter:
        """A writer for a task. Called in the driver."""


class SinkWriter(ABC):
    """Writes batches to the target."""

    # The columns that `write` reads, if not all. Other columns may be missing from the frame, which saves their cost.
    columns: ClassVar[tuple[str, ...] | None] = None

    @abstractmethod
    def write(self, frame: DataFrame, batch: Batch) -> None:
        """Writes all rows of `frame`, and returns when the target has stored them durably.

        The frame is lazy: an action on it reads the topics. Every action gives the same rows, in any number of Spark
        partitions. Rows of a topic partition are in one Spark partition, in order of `offset`, unless a transform
        reordered them.
        """

    def stored_offsets(self) -> Mapping[tuple[str, int], int]:
        """The next offsets by topic partition, if the target stores offsets with the data.

        They take precedence over the offsets of the consumer group, which apply to all other partitions.
        """
        return {}

    def forget(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The topics of these partitions were deleted and created again: offsets in the target are void."""

    def close(self) -> None:
        """Called when the task ends."""
