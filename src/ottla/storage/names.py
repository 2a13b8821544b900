"""The names of files and directories, as in Apache Kafka."""

from __future__ import annotations

from enum import Enum
from sys import intern
from typing import NamedTuple

from ottla.model.ids import TopicPartition, Uuid

__all__ = [
    "CLEANED_SUFFIX",
    "CLEANER_CHECKPOINT_FILE",
    "CLEAN_LOGS_FILE",
    "CLEAN_SHUTDOWN_FILE",
    "CLUSTER_METADATA_TOPIC",
    "DELETED_SUFFIX",
    "DirectoryKind",
    "INDEX_SUFFIX",
    "LEADER_EPOCH_FILE",
    "LOCK_FILE",
    "LOG_START_OFFSET_FILE",
    "LOG_SUFFIX",
    "META_PROPERTIES_FILE",
    "PARTITION_METADATA_FILE",
    "ParsedDirectory",
    "RECOVERY_POINT_FILE",
    "REPLICATION_OFFSET_FILE",
    "SEGMENT_SUFFIXES",
    "REPAIRED_SUFFIX",
    "SNAPSHOT_SUFFIX",
    "SWAP_SUFFIX",
    "TEMPORARY_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "TRANSACTION_INDEX_SUFFIX",
    "delete_directory_name",
    "future_directory_name",
    "has_whole_future_name",
    "name_of_replaced_original",
    "offset_file_name",
    "offset_of_file",
    "parse_directory_name",
    "stray_directory_name",
]

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
# Differs from the suffix of a cleaning, which may write the same segment. A start and Kafka remove both.
REPAIRED_SUFFIX = ".repaired" + CLEANED_SUFFIX
TEMPORARY_SUFFIX = ".tmp"
SWAP_SUFFIX = ".swap"

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
META_PROPERTIES_FILE = "meta.properties"
LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
REPLICATION_OFFSET_FILE = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT_FILE = "cleaner-offset-checkpoint"
# Kafka has no such file, and ignores it.
CLEAN_LOGS_FILE = "ottla-clean-logs"

CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_DELETE_DIRECTORY_SUFFIX = "-delete"
_FUTURE_DIRECTORY_SUFFIX = "-future"
_STRAY_DIRECTORY_SUFFIX = "-stray"
_OFFSET_MAX = (1 << 63) - 1
_PARTITION_MAX = (1 << 31) - 1
_FILE_NAME_LENGTH_MAX = 255
"""The limit of common file systems. A topic name may have 249 characters, so marked directories shorten it."""


class DirectoryKind(Enum):
    """The purpose of a partition's directory."""

    CURRENT = ""
    DELETED = _DELETE_DIRECTORY_SUFFIX
    FUTURE = _FUTURE_DIRECTORY_SUFFIX
    STRAY = _STRAY_DIRECTORY_SUFFIX


class ParsedDirectory(NamedTuple):
    topic_partition: TopicPartition
    kind: DirectoryKind


def offset_file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_of_file(name: str) -> int | None:
    """The offset in a file name, or None for other files. A number above 63 bits is no offset."""
    digits = name.split(".", 1)[0]
    if len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return offset if offset <= _OFFSET_MAX else None


def parse_directory_name(name: str) -> ParsedDirectory | None:
    """The partition of a directory, or None for other directories."""
    kind = DirectoryKind.CURRENT
    stem = name
    for marked in (DirectoryKind.DELETED, DirectoryKind.FUTURE, DirectoryKind.STRAY):
        if name.endswith(marked.value):
            # The unique part before the mark distinguishes a topic from a deleted topic of the same name.
            stem, dot, unique = name.removesuffix(marked.value).rpartition(".")
            if not dot or not unique:
                return None
            kind = marked
            break
    topic, dash, partition = stem.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    number = int(partition)
    if number > _PARTITION_MAX:
        return None
    # Thousands of partitions have one topic, and its name.
    return ParsedDirectory(TopicPartition(intern(topic), number), kind)


def delete_directory_name(topic_partition: TopicPartition, unique: Uuid) -> str:
    return _marked_name(topic_partition, unique, DirectoryKind.DELETED)


def has_whole_future_name(topic_partition: TopicPartition) -> bool:
    """False if the name of a future directory would cut the topic's name, by which a start identifies the partition."""
    return future_directory_name(topic_partition, Uuid.ZERO).startswith(f"{topic_partition}.")


def future_directory_name(topic_partition: TopicPartition, unique: Uuid) -> str:
    return _marked_name(topic_partition, unique, DirectoryKind.FUTURE)


def name_of_replaced_original(future_name: str) -> str:
    """The name of the original's directory once the copy in the future directory is complete."""
    return future_name.removesuffix(_FUTURE_DIRECTORY_SUFFIX) + _DELETE_DIRECTORY_SUFFIX


def stray_directory_name(topic_partition: TopicPartition, unique: Uuid) -> str:
    return _marked_name(topic_partition, unique, DirectoryKind.STRAY)


def _marked_name(topic_partition: TopicPartition, unique: Uuid, kind: DirectoryKind) -> str:
    suffix = f"-{topic_partition.partition}.{unique.bytes.hex()}{kind.value}"
    return topic_partition.topic[: _FILE_NAME_LENGTH_MAX - len(suffix)] + suffix
