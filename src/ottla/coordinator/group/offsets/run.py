"""The offsets of one commit as a run: encoded in one pass, and replayed in one.

A commit may name hundreds of partitions, and every consumer commits every few seconds. The bytes are those that the
messages `OffsetCommitKey` and `OffsetCommitValue` would make (a test holds them against each other); what is the same
for all partitions of a topic is encoded once for each request, or remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from ottla.coordinator.group.offsets.replay import put_offsets
from ottla.coordinator.group.offsets.table import NO_EXPIRY, CommittedOffset
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.varint import varint_bytes
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition

__all__ = ["CommitRun", "CommittedTopic"]

# The partition, which ends the key.
_PARTITION = Struct(">i")
# The beginning of a value of version 4: version, offset, leader epoch, length of the metadata and one more.
_VALUE_HEAD = Struct(">hqiB")
# Its end: commit timestamp, and one tagged field of 16 bytes, the topic's id; then the record's number of headers.
_VALUE_TAIL = Struct(">qBBB16sx")
_VALUE_VERSION = 4
# Without the metadata; the record's headers do not belong to the value.
_VALUE_SIZE = _VALUE_HEAD.size + _VALUE_TAIL.size - 1
# Longer metadata has a longer length, and is left to the messages.
_METADATA_MAX = 126

# Most commits carry no metadata. Then everything between the two parts that a topic's offsets share has one size:
# the partition, the value's length (as a varint), and the beginning of the value.
_BETWEEN = Struct(">iBhqiB")
(_VALUE_SIZE_VARINT,) = varint_bytes(_VALUE_SIZE)

# A named tuple's own constructor is a function of Python's, and this is done for every partition.
_new_tuple = tuple.__new__

# What is remembered must have a bound in bytes too, and a name may have 32,767 characters.
_REMEMBERED_LENGTH_MAX = 200


class CommitRun:
    """Offsets of one group, in the order in which they are written."""

    __slots__ = ("_group_id", "_offsets", "contents")

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._offsets: list[tuple[TopicPartition, CommittedOffset]] = []
        self.contents: list[bytes] = []

    def add(self, topic: CommittedTopic, partitions: Iterable[OffsetCommitRequestPartition]) -> None:
        # One pass with everything at hand: this is what a commit of many partitions costs.
        name, key_head, value_tail = topic.name, topic.key_head, topic.value_tail
        now_ms, expire_timestamp_ms, topic_id = topic.now_ms, topic.expire_timestamp_ms, topic.topic_id
        add_offset, add_content, pack = self._offsets.append, self.contents.append, _BETWEEN.pack
        for partition in partitions:
            index, offset = partition.partition_index, partition.committed_offset
            leader_epoch, metadata = partition.committed_leader_epoch, partition.committed_metadata or ""
            committed = CommittedOffset(offset, leader_epoch, metadata, now_ms, expire_timestamp_ms, topic_id)
            add_offset((_new_tuple(TopicPartition, (name, index)), committed))
            if value_tail is None:
                add_content(_by_messages(self._group_id, name, index, committed))
            elif metadata:
                add_content(_with_metadata(self._group_id, topic, index, committed, value_tail))
            else:
                between = pack(index, _VALUE_SIZE_VARINT, _VALUE_VERSION, offset, leader_epoch, 1)
                add_content(key_head + between + value_tail)

    def replay(self, state: GroupShard, producer_id: int) -> None:
        put_offsets(state, self._group_id, self._offsets, producer_id)


class CommittedTopic:
    """What all offsets of one topic in a commit share."""

    __slots__ = ("expire_timestamp_ms", "key_head", "name", "now_ms", "topic_id", "value_tail")

    def __init__(self, group_id: str, name: str, *, topic_id: Uuid, now_ms: int, expire_timestamp_ms: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.now_ms = now_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        is_short = len(group_id) + len(name) <= _REMEMBERED_LENGTH_MAX
        self.key_head = _remembered_key_head(group_id, name) if is_short else _key_head(group_id, name)
        # None where another version is written: without a topic id, or with a time of expiry.
        self.value_tail: bytes | None = None
        if topic_id and expire_timestamp_ms == NO_EXPIRY:
            self.value_tail = _VALUE_TAIL.pack(now_ms, 1, 0, 16, topic_id.bytes)


def _key_head(group_id: str, topic: str) -> bytes:
    """The key's length, and the key up to the partition."""
    key = GROUP_RECORDS.encode_key(OffsetCommitKey(group=group_id, topic=topic))
    return varint_bytes(len(key)) + key[: -_PARTITION.size]


_remembered_key_head = lru_cache(maxsize=4096)(_key_head)


def _with_metadata(
    group_id: str, topic: CommittedTopic, partition: int, committed: CommittedOffset, value_tail: bytes
) -> bytes:
    metadata = committed.metadata.encode()
    length = len(metadata)
    if length > _METADATA_MAX:
        return _by_messages(group_id, topic.name, partition, committed)
    value_head = _VALUE_HEAD.pack(_VALUE_VERSION, committed.offset, committed.leader_epoch, length + 1)
    value_size = varint_bytes(_VALUE_SIZE + length)
    return b"".join((topic.key_head, _PARTITION.pack(partition), value_size, value_head, metadata, value_tail))


def _by_messages(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> bytes:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return GROUP_RECORDS.encode_content((OffsetCommitKey(group=group_id, topic=topic, partition=partition), value))
