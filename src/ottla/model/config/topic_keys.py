"""Every key a topic can set, and the broker keys its default comes from.

Defaults and accepted values are Apache Kafka 4.3's. A topic that sets nothing follows the broker: the first of the
`synonyms` that the broker sets gives the value, converted to the topic key's unit (`log.retention.hours` to
`retention.ms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.model.config.columns import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LIST, LONG, LONG_MAX, MEDIUM, STRING
from ottla.model.config.keys import HONOURED, ConfigKey, Status
from ottla.model.config.statuses import TIERED_STORAGE
from ottla.model.config.validators import OneOf, SomeOf, ThrottledReplicas, Validator, at_least, between
from ottla.model.config.values import ConfigType, Setting

__all__ = ["COMPRESSION_TYPES", "KAFKA_TOPIC_KEYS", "REMOVED_TOPIC_KEYS", "TOPIC_KEYS"]

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

SUBJECT_STRATEGIES: Final = OneOf(
    *(
        f"{package}{name}"
        for package in ("io.confluent.kafka.serializers.subject.", "")
        for name in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
    )
)


def _key(
    name: str,
    kind: ConfigType,
    default: Setting,
    validator: Validator | None,
    synonyms: tuple[str, ...],
    documentation: str,
    *,
    status: Status = HONOURED,
    internal: bool = False,
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        validator,
        MEDIUM,
        CLUSTER_WIDE,
        status,
        documentation,
        internal,
        synonyms,
    )


# Columns: name, type, default, validator, broker synonyms, documentation.
# fmt: off
_KEYS = (
    _key("cleanup.policy", LIST, ("delete",), SomeOf("compact", "delete", may_be_empty=True), ("log.cleanup.policy",),
         "How old records leave the log: delete by age and size, compact to the newest per key, or both."),
    _key("compression.gzip.level", INT, -1, between(1, 9, or_else=-1), ("compression.gzip.level",),
         "Level used when the broker compresses with gzip; -1 leaves it to the library."),
    _key("compression.lz4.level", INT, 9, between(1, 17), ("compression.lz4.level",),
         "Level used when the broker compresses with lz4."),
    _key("compression.type", STRING, "producer", OneOf(*COMPRESSION_TYPES), ("compression.type",),
         "Codec in which batches are stored; producer keeps whatever the producer chose."),
    _key("compression.zstd.level", INT, 3, between(-131072, 22), ("compression.zstd.level",),
         "Level used when the broker compresses with zstd."),
    _key("delete.retention.ms", LONG, 86_400_000, at_least(0), ("log.cleaner.delete.retention.ms",),
         "How long a tombstone stays readable after compaction has reached it."),
    _key("file.delete.delay.ms", LONG, 60_000, at_least(0), ("log.segment.delete.delay.ms",),
         "Time between renaming a file that is to go and removing it from the disk."),
    _key("flush.messages", LONG, LONG_MAX, at_least(1), ("log.flush.interval.messages",),
         "Number of unflushed records after which the log is forced to disk."),
    _key("flush.ms", LONG, LONG_MAX, at_least(0), ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
         "Longest time a record may stay unflushed before the log is forced to disk."),
    _key("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas(), (),
         "Replicas (partition:broker pairs, or *) whose fetching from the leader is throttled."),
    _key("index.interval.bytes", INT, 4096, at_least(0), ("log.index.interval.bytes",),
         "Bytes of log between two entries of the offset index."),
    _key("internal.segment.bytes", INT, None, None, (),
         "Segment size below the bound of segment.bytes, for tests.", internal=True),
    _key("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas(), (),
         "Replicas (partition:broker pairs, or *) whose serving of followers is throttled."),
    _key("local.retention.bytes", LONG, -2, at_least(-2), ("log.local.retention.bytes",),
         "Bytes kept on local disk of a tiered topic; -2 takes retention.bytes.", status=TIERED_STORAGE),
    _key("local.retention.ms", LONG, -2, at_least(-2), ("log.local.retention.ms",),
         "Time kept on local disk of a tiered topic; -2 takes retention.ms.", status=TIERED_STORAGE),
    _key("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), ("log.cleaner.max.compaction.lag.ms",),
         "Longest time a record may stay out of reach of compaction."),
    _key("max.message.bytes", INT, 1_048_588, at_least(0), ("message.max.bytes",),
         "Largest record batch, after compression, that the topic accepts."),
    _key("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0), ("log.message.timestamp.after.max.ms",),
         "How far a record's timestamp may lie ahead of the broker's clock."),
    _key("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), ("log.message.timestamp.before.max.ms",),
         "How far a record's timestamp may lie behind the broker's clock."),
    _key("message.timestamp.type", STRING, "CreateTime", OneOf("CreateTime", "LogAppendTime"),
         ("log.message.timestamp.type",),
         "Whether records keep the producer's timestamp or get the time of the append."),
    _key("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), ("log.cleaner.min.cleanable.ratio",),
         "Share of not yet compacted bytes from which on a log is worth compacting."),
    _key("min.compaction.lag.ms", LONG, 0, at_least(0), ("log.cleaner.min.compaction.lag.ms",),
         "Time for which a record is left alone by compaction."),
    _key("min.insync.replicas", INT, 1, at_least(1), ("min.insync.replicas",),
         "In-sync replicas that must exist for a produce with acks=all to be accepted."),
    _key("preallocate", BOOLEAN, False, None, ("log.preallocate",),
         "Whether a new segment file gets its full size on disk at once."),
    _key("remote.log.copy.disable", BOOLEAN, False, None, (),
         "Whether a tiered topic stops copying segments to remote storage.", status=TIERED_STORAGE),
    _key("remote.log.delete.on.disable", BOOLEAN, False, None, (),
         "Whether remote data goes when tiering is switched off for the topic.", status=TIERED_STORAGE),
    _key("remote.storage.enable", BOOLEAN, False, None, (),
         "Whether closed segments are copied to remote storage.", status=TIERED_STORAGE),
    _key("retention.bytes", LONG, -1, None, ("log.retention.bytes",),
         "Size above which a partition drops its oldest closed segments; -1 for no limit."),
    _key("retention.ms", LONG, 604_800_000, at_least(-1),
         ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
         "Age above which closed segments are dropped; -1 for no limit."),
    _key("segment.bytes", INT, 1 << 30, at_least(1 << 20), ("log.segment.bytes",),
         "Size at which the active segment is closed and a new one begun."),
    _key("segment.index.bytes", INT, 10 << 20, at_least(4), ("log.index.size.max.bytes",),
         "Largest size of an index file; a full index closes its segment."),
    _key("segment.jitter.ms", LONG, 0, at_least(0), ("log.roll.jitter.ms", "log.roll.jitter.hours"),
         "Random time by which segments are closed early, so that not all close at once."),
    _key("segment.ms", LONG, 604_800_000, at_least(1), ("log.roll.ms", "log.roll.hours"),
         "Age at which the active segment is closed even when it is not full."),
    _key("unclean.leader.election.enable", BOOLEAN, False, None, ("unclean.leader.election.enable",),
         "Whether a replica that is out of sync may lead when no other is left, at the price of lost records."),
)
# fmt: on

# Keys of Ottla, and of Confluent's broker. DescribeConfigs shows them only where a topic sets them: tools of Kafka do
# not expect them.
# fmt: off
_OWN_KEYS = (
    _key("confluent.key.schema.validation", BOOLEAN, False, None, (),
         "Whether records are refused whose key names no schema that the registry has for this topic.", internal=True),
    _key("confluent.key.subject.name.strategy", STRING, "io.confluent.kafka.serializers.subject.TopicNameStrategy",
         SUBJECT_STRATEGIES, (),
         "How the subject of keys is named, for confluent.key.schema.validation.", internal=True),
    _key("confluent.value.schema.validation", BOOLEAN, False, None, (),
         "Whether records are refused whose value names no schema that the registry has for this topic.",
         internal=True),
    _key("confluent.value.subject.name.strategy", STRING, "io.confluent.kafka.serializers.subject.TopicNameStrategy",
         SUBJECT_STRATEGIES, (),
         "How the subject of values is named, for confluent.value.schema.validation.", internal=True),
    _key("ottla.lake.mode", STRING, "", OneOf("", "off", "raw", "typed", "upsert", "typed-upsert"), (),
         "How `ottla lake` keeps a table of this topic: off, raw, typed, upsert, typed-upsert; empty as its file says.",
         internal=True),
    _key("ottla.lake.partition.by", STRING, "", None, (),
         "The partitions of the table of this topic, such as day(timestamp), bucket(16, key).", internal=True),
    _key("ottla.mirror.name", STRING, "", None, (),
         "The mirror that alone writes to this topic, with the offsets of its source; empty for an ordinary topic.",
         internal=True),
)
# fmt: on

KAFKA_TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _KEYS}
TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = {**KAFKA_TOPIC_KEYS, **{key.name: key for key in _OWN_KEYS}}

# Keys of older releases and common mistakes, with the end of the error message.
REMOVED_TOPIC_KEYS: Final[Mapping[str, str]] = {
    "leader.replication.throttled.replica": "its name is leader.replication.throttled.replicas",
    "follower.replication.throttled.replica": "its name is follower.replication.throttled.replicas",
    "message.format.version": "since 4.0 every batch is stored in format v2, so the version cannot be chosen",
    "message.downconversion.enable": "since 4.0 fetches old enough to need another format are not served",
    "message.timestamp.difference.max.ms": (
        "since 4.0 it is split into message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    ),
}
