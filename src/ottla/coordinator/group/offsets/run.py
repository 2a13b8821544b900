"""The offsets of one commit as a run: written in one pass, and replayed in one pass.

A commit may name hundreds of partitions, and every consumer commits every few seconds. The constant part is in the
commit's shape (`shape`). Most commits carry no metadata, so one `pack` writes the rest. Commits with metadata are
written record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.offsets.replay import put_offsets
from ottla.coordinator.group.offsets.shape import METADATA_LENGTH_MAX, CommitShape, value_tail
from ottla.coordinator.group.offsets.table import NO_EXPIRY, OffsetsOfTopic
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.ids import Uuid
from ottla.records.record import append_contents
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.uniform import UniformArray

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

__all__ = ["PARTITIONS_TOGETHER_MAX", "CommitColumns", "CommitRun"]

PARTITIONS_TOGETHER_MAX = 128
"""Offsets that are kept together: one of them may keep all of them in memory."""


class CommitColumns(NamedTuple):
    """The offsets of one topic in a commit, by columns."""

    indexes: tuple[int, ...]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None
    """None where all are empty."""

    @classmethod
    def of(
        cls, partitions: Sequence[OffsetCommitRequestPartition] | Sequence[TxnOffsetCommitRequestPartition]
    ) -> CommitColumns:
        if type(partitions) is UniformArray:
            column = partitions.column
            offsets, has_epochs = column("committed_offset"), "committed_leader_epoch" in partitions.names
            leader_epochs = column("committed_leader_epoch") if has_epochs else (-1,) * len(offsets)
            return cls(column("partition_index"), offsets, leader_epochs, None)
        if len(partitions) == 1:
            (only,) = partitions
            metadata = (only.committed_metadata,) if only.committed_metadata else None
            return cls((only.partition_index,), (only.committed_offset,), (only.committed_leader_epoch,), metadata)
        has_metadata = any(partition.committed_metadata for partition in partitions)
        return cls(
            tuple([partition.partition_index for partition in partitions]),
            tuple([partition.committed_offset for partition in partitions]),
            tuple([partition.committed_leader_epoch for partition in partitions]),
            tuple([partition.committed_metadata or "" for partition in partitions]) if has_metadata else None,
        )

    def only(self, places: Sequence[int]) -> CommitColumns:
        """The same columns for some of the partitions."""
        indexes, offsets, leader_epochs, metadata = self
        return CommitColumns(
            tuple([indexes[place] for place in places]),
            tuple([offsets[place] for place in places]),
            tuple([leader_epochs[place] for place in places]),
            None if metadata is None else tuple([metadata[place] for place in places]),
        )


class CommitRun:
    """Offsets of one group, in the order in which they are written."""

    __slots__ = ("_group_id", "_pieces", "count", "size_bytes")

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        # The end of the values for records that the shape writes, else the contents of the records.
        self._pieces: list[tuple[CommitShape, OffsetsOfTopic, bytes | list[bytes]]] = []
        self.count = 0
        self.size_bytes = 0

    @property
    def shape(self) -> CommitShape | None:
        """The shape of a run that has one: a topic with not too many partitions."""
        return self._pieces[0][0] if len(self._pieces) == 1 else None

    def add(
        self, shape: CommitShape, columns: CommitColumns, *, topic_id: Uuid, now_ms: int, expire_timestamp_ms: int
    ) -> None:
        _, offsets, leader_epochs, metadata = columns
        committed = OffsetsOfTopic(
            shape.places, offsets, leader_epochs, metadata, now_ms, expire_timestamp_ms, topic_id
        )
        self.count += shape.count
        if metadata is None and topic_id and expire_timestamp_ms == NO_EXPIRY:
            self._pieces.append((shape, committed, value_tail(now_ms, topic_id)))
            self.size_bytes += shape.count * shape.content_size
        else:
            contents = _contents(self._group_id, shape, committed)
            self._pieces.append((shape, committed, contents))
            self.size_bytes += sum(map(len, contents))

    def write(self, payload: bytearray, *, first_offset_delta: int, timestamp_delta: int) -> None:
        pieces = iter(self._pieces)
        if not first_offset_delta and not timestamp_delta:
            shape, committed, content = self._pieces[0]
            if type(content) is bytes:
                payload += shape.records(committed.offsets, committed.leader_epochs, content)
                first_offset_delta = shape.count
                next(pieces)
        contents: list[bytes] = []
        for shape, committed, content in pieces:
            contents += content if isinstance(content, list) else _short_contents(shape, committed, content)
        if contents:
            append_contents(payload, contents, first_offset_delta=first_offset_delta, timestamp_delta=timestamp_delta)

    def replay(self, state: GroupShard, producer_id: int) -> None:
        for shape, committed, _ in self._pieces:
            put_offsets(state, self._group_id, shape.partitions, committed, producer_id)


def _short_contents(shape: CommitShape, committed: OffsetsOfTopic, tail: bytes) -> list[bytes]:
    """The contents of records without metadata that are not the first records of their batch."""
    content = shape.content
    columns = zip(committed.offsets, committed.leader_epochs, strict=True)
    return [content(place, offset, epoch, b"", tail) for place, (offset, epoch) in enumerate(columns)]


def _contents(group_id: str, shape: CommitShape, committed: OffsetsOfTopic) -> list[bytes]:
    topic_id = committed.topic_id
    # A value without a topic id, or with an expiry time, has another version.
    is_usual = topic_id and committed.expire_timestamp_ms == NO_EXPIRY
    tail = value_tail(committed.commit_timestamp_ms, topic_id) if is_usual else b""
    contents: list[bytes] = []
    for place, (topic, index) in enumerate(shape.partitions):
        offset, leader_epoch = committed.offsets[place], committed.leader_epochs[place]
        metadata = "" if committed.metadata is None else committed.metadata[place]
        encoded = metadata.encode()
        if is_usual and len(encoded) <= METADATA_LENGTH_MAX:
            contents.append(shape.content(place, offset, leader_epoch, encoded, tail))
            continue
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=topic_id,
        )
        key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
        contents.append(GROUP_RECORDS.encode_content((key, value)))
    return contents
