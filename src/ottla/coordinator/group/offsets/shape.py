"""The constant part of a consumer's commits: group, topic and partitions.

A consumer commits the same partitions again and again, with other offsets. The shape of a commit holds the constant
bytes: the keys of the records in a batch, the partitions for the table of offsets, and the response without errors. A
commit then fills in its numbers, all with one `pack`.

The bytes equal those of the messages `OffsetCommitKey` and `OffsetCommitValue`, which a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.varint import varint_bytes
from ottla.wire.codec import encode
from ottla.wire.messages.group_records import OffsetCommitKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.packed import PackedResponse

__all__ = ["METADATA_LENGTH_MAX", "CommitShape", "CommitShapes", "value_tail"]

_PARTITION = Struct(">i")
# A value of version 4: version, offset, leader epoch, length of the metadata and one more ...
_VALUE_HEAD = Struct(">hqiB")
# ... then the metadata, the commit timestamp, and one tagged field of 16 bytes, the topic's id; a zero for the record's
# number of headers follows.
_VALUE_TAIL = Struct(">qBBB16sx")
_VALUE_VERSION = 4
# Without the metadata; the record's headers do not belong to the value.
_VALUE_SIZE = _VALUE_HEAD.size + _VALUE_TAIL.size - 1
# Longer metadata has a longer length.
METADATA_LENGTH_MAX = 126
# The bytes after the leader epoch of a value without metadata.
_EMPTY_METADATA = b"\1"
_TAIL_SIZE = len(_EMPTY_METADATA) + _VALUE_TAIL.size

# Attributes, and a timestamp delta of 0.
_ATTRIBUTES_AND_TIME = b"\0\0"

# The bounds of the cache: the partitions of all shapes, where a shape has as many bytes of its own as four partitions,
# and the length of the names, which have up to 32,767 characters.
_WEIGHT_REMEMBERED_MAX = 1 << 15
_SHAPE_WEIGHT = 4
_REMEMBERED_LENGTH_MAX = 200

# The throttle time is the first field of an OffsetCommit response from this version on.
_THROTTLE_TIME_VERSION = 3


class CommitShape:
    """The shape of commits for one group, topic and run of partitions."""

    __slots__ = ("_answers", "_key_head", "_pack", "_prefixes", "content_size", "count", "partitions", "places")

    def __init__(self, group_id: str, topic: str, indexes: Sequence[int]) -> None:
        key = GROUP_RECORDS.encode_key(OffsetCommitKey(group=group_id, topic=topic))
        # The key's length, and the key up to the partition.
        self._key_head = varint_bytes(len(key)) + key[: -_PARTITION.size]
        self.count = len(indexes)
        self.partitions = [TopicPartition(topic, index) for index in indexes]
        self.places = {index: place for place, index in enumerate(indexes)}
        # The lengths are those of a record without metadata: see `ottla.records.record.record_content`.
        value_length = varint_bytes(_VALUE_SIZE)
        self.content_size = len(self._key_head) + _PARTITION.size + len(value_length) + _VALUE_SIZE + 1
        # The bytes of each record up to its offset, in a batch that begins with this commit.
        value_version = _VALUE_HEAD.pack(_VALUE_VERSION, 0, 0, 0)[:2]
        self._prefixes: list[bytes] = []
        for delta, index in enumerate(indexes):
            offset_delta = varint_bytes(delta)
            length = varint_bytes(len(_ATTRIBUTES_AND_TIME) + len(offset_delta) + self.content_size)
            place = length + _ATTRIBUTES_AND_TIME + offset_delta
            self._prefixes.append(place + self._key_head + _PARTITION.pack(index) + value_length + value_version)
        self._pack = Struct(">" + "".join(f"{len(prefix)}sqi{_TAIL_SIZE}s" for prefix in self._prefixes)).pack
        # Responses by version and topic id.
        self._answers: dict[tuple[int, bytes], PackedResponse] = {}

    @property
    def first_record_start(self) -> tuple[bytes, bytes]:
        """The first record of `records` up to its offset, without the deltas of time and offset between the two."""
        prefix = self._prefixes[0]
        # The content up to the value's version, and one byte before it for each delta.
        size = len(prefix) - (self.content_size - _VALUE_SIZE - 1 + 2)
        return prefix[: size - 2], prefix[size:]

    def records(self, offsets: Sequence[int], leader_epochs: Sequence[int], tail: bytes) -> bytes:
        """All records, without metadata, as the first records of a batch."""
        if self.count == 1:
            return self._pack(self._prefixes[0], offsets[0], leader_epochs[0], _EMPTY_METADATA + tail)
        values: list[object] = [_EMPTY_METADATA + tail] * (4 * self.count)
        values[0::4] = self._prefixes
        values[1::4] = offsets
        values[2::4] = leader_epochs
        return self._pack(*values)

    def content(self, place: int, offset: int, leader_epoch: int, metadata: bytes, tail: bytes) -> bytes:
        """Key and value of one record: see `ottla.records.record.record_content`."""
        length = len(metadata)
        assert length <= METADATA_LENGTH_MAX
        value_head = _VALUE_HEAD.pack(_VALUE_VERSION, offset, leader_epoch, length + 1)
        partition = _PARTITION.pack(self.partitions[place].partition)
        return b"".join((self._key_head, partition, varint_bytes(_VALUE_SIZE + length), value_head, metadata, tail))

    def good_answer(self, version: int, name: str, topic_id: Uuid) -> PackedResponse:
        """The answer without an error. Requests share it."""
        answer = self._answers.get((version, topic_id.bytes))
        if answer is None:
            partitions = [
                OffsetCommitResponsePartition(partition_index=partition.partition) for partition in self.partitions
            ]
            topic = OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            # Few versions are in use, but a topic gets a new id each time it is created.
            if len(self._answers) >= 4:
                self._answers.clear()
            answer = self._answers[version, topic_id.bytes] = PackedResponse(
                encode(OffsetCommitResponse(topics=[topic]), version),
                throttle_position=0 if version >= _THROTTLE_TIME_VERSION else None,
            )
        return answer


def value_tail(commit_timestamp_ms: int, topic_id: Uuid) -> bytes:
    """The common end of all values of a topic in one commit, with the end of the record."""
    return _VALUE_TAIL.pack(commit_timestamp_ms, 1, 0, 16, topic_id.bytes)


class CommitShapes:
    """The shapes of recent commits, by topic, so that the shapes of a deleted topic can be dropped."""

    __slots__ = ("_by_topic", "_weight")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, tuple[int, ...]], CommitShape]] = {}
        self._weight = 0

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def of(self, group_id: str, topic: str, indexes: tuple[int, ...]) -> CommitShape:
        of_topic = self._by_topic.get(topic)
        shape = None if of_topic is None else of_topic.get((group_id, indexes))
        if shape is None:
            shape = CommitShape(group_id, topic, indexes)
            if len(group_id) + len(topic) <= _REMEMBERED_LENGTH_MAX:
                self._remember(topic, (group_id, indexes), shape)
        return shape

    def forget_topics(self, names: Iterable[str]) -> None:
        for name in names:
            for shape in self._by_topic.pop(name, {}).values():
                self._weight -= shape.count + _SHAPE_WEIGHT

    def _remember(self, topic: str, key: tuple[str, tuple[int, ...]], shape: CommitShape) -> None:
        weight = shape.count + _SHAPE_WEIGHT
        if self._weight + weight > _WEIGHT_REMEMBERED_MAX:
            # The next commits fill the cache again.
            self._by_topic.clear()
            self._weight = 0
        self._by_topic.setdefault(topic, {})[key] = shape
        self._weight += weight
