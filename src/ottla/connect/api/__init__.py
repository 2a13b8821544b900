"""The interface for authors of connectors and other plug-ins: import everything from here.

**Connector.** A class with `plan`, which divides the work into tasks, and either a reader (source) or a writer (sink).
The worker runs each task as a loop of micro-batches on its long-lived Spark driver, one batch a second while there is
data. Connectors are constructed without arguments; `config` and `Task` carry everything that they need.

**Source.** One batch of a source task:

1. in the driver: `reader.partitions()`, then `reader.latest(partition, start, limit)` for every partition: the offset
   where this batch ends. `start` is the last stored offset, or None for a source partition that was never read;
2. in Spark's executors: `reader.read(partition, start, end)` yields Arrow batches of `reader.schema(partition)`;
3. transforms, then converters, as DataFrame expressions;
4. one transaction writes all rows to the topics and the new source offsets to the offset topic;
5. in the driver: `reader.committed(partition, end)`.

A failure before the end of step 4 leaves nothing visible. The batch is repeated from the last stored offsets, by this
worker or by another worker. So `read` must be able to return a range again until `committed` was called for it.
Partitions and offsets are small JSON objects of the author's choice, as in Kafka Connect: `{"file": "a.txt"}`,
`{"position": 4711}`.

**Sink.** One batch of a sink task: records of some offset ranges are read from the topics, decoded by the converters,
changed by the transforms, and given to `writer.write(frame, batch)` in the driver, as one DataFrame. When `write`
returns, the offsets of the group `connect-<name>` are committed. The ranges of a batch are stored before it is written:
after a crash the same batch is repeated, with the same `Batch.identity`, also on another worker. A target that stores
that identity, or that overwrites data by it, holds every record exactly once.

**Frames.** Between reader and writer every DataFrame has some of these columns. Spark's own Kafka connector uses the
same names. Key and value have any Spark type between reader and converters, and are binary in topics.

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

Nothing here imports Spark. A worker imports plug-ins before it has a session, so they should import pyspark and pyarrow
inside the functions that need them, or under `TYPE_CHECKING`.
"""

from __future__ import annotations

from ottla.connect.api.config_definitions import (
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
    Password,
    Range,
    Setting,
    Settings,
    SomeOf,
    Width,
)
from ottla.connect.api.connector import (
    Batch,
    Connector,
    Delivery,
    DeliveryClaim,
    JsonScalar,
    OffsetRange,
    ReadLimit,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
    TaskWorker,
)
from ottla.connect.api.plugin import ConfigProvider, ConnectError, Plugin, RetriableError
from ottla.connect.api.record_plugin import Converter, Predicate, Transform

__all__ = [
    "REQUIRED",
    "Batch",
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
    "JsonScalar",
    "Matches",
    "NonEmpty",
    "OffsetRange",
    "OneOf",
    "Password",
    "Plugin",
    "Predicate",
    "Range",
    "ReadLimit",
    "RetriableError",
    "Setting",
    "Settings",
    "SinkConnector",
    "SinkWriter",
    "SomeOf",
    "SourceConnector",
    "SourceOffset",
    "SourcePartition",
    "SourceReader",
    "Task",
    "TaskWorker",
    "Transform",
    "Width",
]
