"""What a connector's author writes, and nothing else: import from here.

**Connector.** A class with `plan`, which divides the work into tasks, and either a reader (source) or a writer (sink).
The worker runs each task as a loop of micro-batches on its long-lived Spark driver, one batch each second while there
is something to do. Instances are made without arguments; all they know comes in through `config` and `Task`.

**Source.** One batch of a source task:

1. in the driver: `reader.partitions()`, then `reader.latest(partition, start, limit)` for each of them: up to where
   this batch reads. `start` is the offset stored last, or None for a source partition that was never read;
2. in Spark's executors: `reader.read(partition, start, end)` gives Arrow record batches of `reader.schema(partition)`;
3. transforms, then converters, as DataFrame expressions;
4. all rows go to the topics in one transaction, and the new source offsets to the offset topic in the same one;
5. in the driver: `reader.committed(partition, end)`.

Whatever fails before the end of step 4 leaves nothing visible, and the batch is made again, here or by another worker,
from the offsets stored last. So `read` must be able to give the same range again until `committed` was called for it.
Partitions and offsets are small JSON objects of the author's choice, as in Kafka Connect: `{"file": "a.txt"}`,
`{"position": 4711}`.

**Sink.** One batch of a sink task: records of some offset ranges are read from the topics, decoded by the converters,
changed by the transforms, and given to `writer.write(frame, batch)` in the driver, as one DataFrame. When `write` has
returned, the offsets of group `connect-<name>` are committed. The ranges of a batch are noted before it is written:
after a crash the very same batch comes again, with the same `Batch.identity`, also on another worker. A target that can
remember that identity, or can overwrite what it got under it, holds everything exactly once.

**Frames.** Between reader and writer every DataFrame has some of these columns, the names that Spark's own Kafka
connector uses too. Key and value have any Spark type between reader and converters, and are binary in topics.

| column | type | |
|---|---|---|
| `key` | any | may be absent |
| `value` | any | null is a tombstone |
| `topic` | string | a source may leave it out when its configuration has `topic` |
| `partition` | int | of a source: null or absent lets the key decide |
| `timestamp` | timestamp | of a source: null or absent is the time of writing |
| `headers` | array<struct<key: string, value: binary>> | may be absent |
| `offset` | bigint | sinks only |
| `timestampType` | int | sinks only |

Nothing here imports Spark: modules of plug-ins are imported to be listed, long before there is a session. They should
import pyspark and pyarrow inside the functions that need them, or under `TYPE_CHECKING`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from ottla.connect.config_definitions import (
    REQUIRED,
    ConfigDefinition,
    ConfigDefinitions,
    ConfigError,
    ConfigType,
    ConfigValue,
    Importance,
    Matches,
    NonEmpty,
    OneOf,
    Range,
    Setting,
    Settings,
    Width,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "REQUIRED",
    "Batch",
    "Chain",
    "ChainResult",
    "ConfigDefinition",
    "ConfigDefinitions",
    "ConfigError",
    "ConfigProvider",
    "ConfigType",
    "ConfigValue",
    "ConnectError",
    "Connector",
    "Converter",
    "Delivery",
    "DeliveryClaim",
    "Importance",
    "Matches",
    "NonEmpty",
    "OffsetRange",
    "OneOf",
    "Plugin",
    "Predicate",
    "Range",
    "ReadLimit",
    "RetriableError",
    "Setting",
    "Settings",
    "SinkConnector",
    "SinkWriter",
    "SourceConnector",
    "SourceOffset",
    "SourcePartition",
    "SourceReader",
    "Task",
    "Transform",
    "Width",
]

# Connect's maps: JSON objects with values that JSON can hold.
JsonScalar = str | int | float | bool | None
SourcePartition = Mapping[str, JsonScalar]
SourceOffset = Mapping[str, JsonScalar]


class ConnectError(Exception):
    """Something that ends a task: it becomes FAILED with this as its trace, and is restarted by policy."""


class RetriableError(ConnectError):
    """Something that may pass by itself, such as a database that is restarting: the batch is tried again."""


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


class Plugin(ABC):
    """What every plug-in has. A plug-in is found by its class name, by its full name and by its `aliases`."""

    version: ClassVar[str] = "0.1.0"
    # Other names under which configurations may ask for it, such as the Java class it stands for.
    aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        """The settings that it knows beside those that every plug-in of its kind has."""
        return ConfigDefinitions()


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


class Converter(Plugin):
    """Between typed values and the bytes in topics. `key.converter` and `value.converter` have one instance each."""

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """`config` has the settings without their prefix (`value.converter.schemas.enable` → `schemas.enable`)."""

    @abstractmethod
    def to_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with `column` as binary. Null stays null."""

    @abstractmethod
    def from_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with the binary `column` as typed values. Null stays null."""

    def keeps(self, kind: str) -> bool:
        """Whether `to_bytes` leaves the bytes of every value of this Spark type as they are: rows may then pass by."""
        return False


class Transform(Plugin):
    """Changes records on their way, as DataFrame expressions."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings without their prefix (`transforms.x.field` → `field`)."""

    @abstractmethod
    def apply(self, frame: DataFrame) -> DataFrame:
        """The changed frame."""


class Predicate(Plugin):
    """Says to which records a transform applies."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings without their prefix."""

    @abstractmethod
    def holds(self, frame: DataFrame) -> Column:
        """A boolean column, never null."""


class ConfigProvider(Plugin):
    """Looks up secrets and other values for `${provider:path:key}` in configurations."""

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` has the settings of `config.providers.<name>.param.`, without that prefix."""

    @abstractmethod
    def get(self, path: str, keys: Sequence[str]) -> Mapping[str, str]:
        """The values of these keys at this path; a key that is not there is left out."""


@dataclass(frozen=True, slots=True)
class ChainResult:
    """What came out of converters and transforms: rows to go on with, and rows that failed.

    `failed` is for the dead-letter topic: binary `key` and `value` as they were read, `headers` with the context of
    the failure, when `errors.tolerance=all`; None where failures end the task.
    """

    good: DataFrame
    failed: DataFrame | None = field(default=None)
    # Logs what failed, and says how many that was; None where `errors.log.enable` does not ask for it.
    report: Callable[[], int] | None = field(default=None)


class Chain(Protocol):
    """Converters, transforms and the policy for failures of one connector, made by `ottla.connect.chain`."""

    def source(self, frame: DataFrame) -> ChainResult:
        """From what the reader gave to binary key and value: transforms, then converters."""
        ...

    def keeps(self, schema: StructType) -> bool:
        """Whether rows of a source go to their topics with the very bytes that they have."""
        ...

    def sink(self, frame: DataFrame) -> ChainResult:
        """From binary key and value to what the writer gets: converters, then transforms."""
        ...

    def needs(self, columns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Which columns of a sink's topics are looked at, when its writer looks at these; None is all of them."""
        ...

    def release(self) -> None:
        """The batch that `sink` was called for is written: what was kept of it may go."""
        ...
