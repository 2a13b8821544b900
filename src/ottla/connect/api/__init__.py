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
    "Transform",
    "Width",
]
