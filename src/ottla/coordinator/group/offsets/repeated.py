"""Commits of one partition that differ from one another in two numbers: the offset, and the leader epoch.

A consumer that has one partition, or commits after every record, sends the same request again and again but for these.
What is the same each time is read and looked up once (`RepeatedCommit`), and recognised by its bytes: the request up to
the offset. A commit then is a check of the member, a pack, an append, and an answer that is there already.

When the shard expects nobody else in this turn of the loop, the record goes into the log as a batch of its own, with
none of what is needed where several decisions share one. Otherwise it is submitted like every decision. Both ways write
what `decide_commit` would write, and refuse what it would refuse.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from ottla.coordinator.group.offsets.commit import check_commit
from ottla.coordinator.group.offsets.replay import put_offsets
from ottla.coordinator.group.offsets.shape import CommitShape, value_tail
from ottla.coordinator.group.offsets.table import NO_EXPIRY, OffsetsOfTopic
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, PRODUCER_AND_COUNT
from ottla.records.record import append_contents

if TYPE_CHECKING:
    from ottla.coordinator.group.service import GroupCoordinator
    from ottla.coordinator.group.state import GroupShard
    from ottla.metadata.image import TopicImage, TopicsImage
    from ottla.wire.messages.offset_commit import OffsetCommitRequest
    from ottla.wire.packed import PackedResponse

__all__ = ["RepeatedCommit", "RepeatedCommits"]

FIRST_VERSION_WITH_TOPIC_IDS = 10

# Up to this, a delta is one byte in a record: twice the number.
_SHORT_DELTA_MAX = 63
_NO_METADATA = 1
_TIMESTAMP_SIZE = 8
# What a batch of one record begins with behind its checksum: no attributes, and its first record is its last.
_ALONE_HEAD = bytes(2 + 4)
# Producer, epoch and sequence, and the number of records.
_ALONE_PRODUCER = PRODUCER_AND_COUNT.pack(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 1)

# What is remembered has a bound; whoever still commits is remembered again.
_REMEMBERED_MAX = 1 << 14


class RepeatedCommit:
    """A request for one partition and without metadata, and what this broker knows about it.

    It is good as long as `topics` are those of the cluster: one may be deleted, or be there again as another topic.
    """

    __slots__ = (
        "_alone_middle",
        "_answer",
        "_end",
        "_index",
        "_pack_alone",
        "_pack_record",
        "_partition_count",
        "_record_middle",
        "_record_start",
        "_version",
        "request",
        "shape",
        "topic_id",
        "topics",
    )

    def __init__(
        self,
        request: OffsetCommitRequest,
        version: int,
        *,
        topic: TopicImage,
        topics: TopicsImage,
        shape: CommitShape,
        index: int,
        partition_count: int,
    ) -> None:
        # As it came the first time, offset and all: for checks that look at everything else, and for error answers.
        self.request = request
        self.topics = topics
        self.shape = shape
        self.topic_id = topic.topic_id
        self._version = version
        self._answer = shape.good_answer(version, topic.name, request.topics[0].topic_id)
        # The partition of the offsets topic that the group belongs to, of so many.
        self._index = index
        self._partition_count = partition_count
        length_and_attributes, key_and_version = shape.first_record_start
        self._record_start = length_and_attributes
        self._record_middle = key_and_version
        self._alone_middle = _ALONE_PRODUCER + length_and_attributes + bytes(2) + key_and_version
        self._end = value_tail(0, topic.topic_id)[_TIMESTAMP_SIZE:]
        # Offset, leader epoch, metadata and commit timestamp, and the end of the record.
        numbers = f"qiBq{len(self._end)}s"
        self._pack_record = Struct(f">{len(self._record_start)}sBB{len(key_and_version)}s{numbers}").pack
        self._pack_alone = Struct(f">{len(_ALONE_HEAD)}sqq{len(self._alone_middle)}s{numbers}").pack

    def commit(
        self, offset: int, leader_epoch: int, groups: GroupCoordinator, now_ms: int
    ) -> PackedResponse | Deferred[PackedResponse]:
        shard = groups.runtime.shard_at(self._index, self._partition_count)
        if shard is None or not shard.expects_nobody(self.shape.content_size):
            return groups.submit(self.request.group_id, partial(self._decide, offset, leader_epoch))
        check_commit(shard.state, self.request, self._version)
        checksummed = self._pack_alone(
            _ALONE_HEAD, now_ms, now_ms, self._alone_middle, offset, leader_epoch, _NO_METADATA, now_ms, self._end
        )
        appended = shard.append_alone(checksummed, self._answer, now_ms)
        self.replay(shard.state, offset, leader_epoch, now_ms)
        return appended

    def record(self, offset: int, leader_epoch: int, now_ms: int, *, offset_delta: int, timestamp_delta: int) -> bytes:
        """The record as it stands in a batch, if both deltas are short."""
        return self._pack_record(
            self._record_start,
            2 * timestamp_delta,
            2 * offset_delta,
            self._record_middle,
            offset,
            leader_epoch,
            _NO_METADATA,
            now_ms,
            self._end,
        )

    def replay(self, state: GroupShard, offset: int, leader_epoch: int, now_ms: int, producer_id: int = -1) -> None:
        shape = self.shape
        committed = OffsetsOfTopic(shape.places, (offset,), (leader_epoch,), None, now_ms, NO_EXPIRY, self.topic_id)
        put_offsets(state, self.request.group_id, shape.partitions, committed, producer_id)

    def _decide(self, offset: int, leader_epoch: int, state: GroupShard, now_ms: int) -> Decision[PackedResponse]:
        check_commit(state, self.request, self._version)
        return Decision((), self._answer, run=_OneOffset(self, offset, leader_epoch, now_ms))


class _OneOffset:
    """One of these commits as a run of a single record."""

    __slots__ = ("_leader_epoch", "_now_ms", "_offset", "_repeated", "count", "size_bytes")

    def __init__(self, repeated: RepeatedCommit, offset: int, leader_epoch: int, now_ms: int) -> None:
        self.count = 1
        self.size_bytes = repeated.shape.content_size
        self._repeated = repeated
        self._offset = offset
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms

    def write(self, payload: bytearray, *, first_offset_delta: int, timestamp_delta: int) -> None:
        repeated, offset, leader_epoch = self._repeated, self._offset, self._leader_epoch
        if first_offset_delta <= _SHORT_DELTA_MAX and 0 <= timestamp_delta <= _SHORT_DELTA_MAX:
            payload += repeated.record(
                offset, leader_epoch, self._now_ms, offset_delta=first_offset_delta, timestamp_delta=timestamp_delta
            )
            return
        tail = value_tail(self._now_ms, repeated.topic_id)
        content = repeated.shape.content(0, offset, leader_epoch, b"", tail)
        append_contents(payload, [content], first_offset_delta=first_offset_delta, timestamp_delta=timestamp_delta)

    def replay(self, state: GroupShard, producer_id: int) -> None:
        self._repeated.replay(state, self._offset, self._leader_epoch, self._now_ms, producer_id)


class RepeatedCommits:
    """Those that have been seen lately, by version and the bytes that are the same each time."""

    __slots__ = ("_commits", "get")

    def __init__(self) -> None:
        self._commits: dict[tuple[int, bytes], RepeatedCommit] = {}
        self.get = self._commits.get

    def __len__(self) -> int:
        return len(self._commits)

    def remember(
        self, seen: tuple[int, bytes], request: OffsetCommitRequest, topics: TopicsImage, groups: GroupCoordinator
    ) -> RepeatedCommit | None:
        """None where this is nothing to be done quickly: the usual way finds out why."""
        version, _ = seen
        (wanted,) = request.topics
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            topic = topics.by_id.get(wanted.topic_id)
        else:
            topic = topics.by_name.get(wanted.name)
        index = wanted.partitions[0].partition_index
        # While the coordinator has not heard of the newest metadata yet, it may know another topic of that name.
        if topic is None or not 0 <= index < len(topic.partitions) or groups.context.image.topics is not topics:
            return None
        wanted.name = topic.name
        try:
            shard_index = groups.runtime.partition_of(request.group_id)
        except KafkaError:
            return None
        repeated = RepeatedCommit(
            request,
            version,
            topic=topic,
            topics=topics,
            shape=groups.context.commit_shapes.of(request.group_id, topic.name, (index,)),
            index=shard_index,
            partition_count=groups.runtime.partition_count,
        )
        if len(self._commits) >= _REMEMBERED_MAX:
            self._commits.clear()
        self._commits[seen] = repeated
        return repeated
