"""The shortcut for commits of one partition that differ only in the offset and the leader epoch.

A consumer with one partition, or one that commits after every record, sends the same request again with two other
numbers. The constant part is decoded and looked up once (`RepeatedCommit`) and recognised by its bytes, the request up
to the offset. Such a commit is a check of the member, one `pack`, an append, and a response that exists already.

If the shard expects no other decision in this turn of the loop, the record is appended as a batch of its own, without
the parts that several decisions need. Otherwise it is submitted like every decision. Both ways write the records of
`decide_commit`, and refuse the same requests.
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

# A delta up to this is one byte in a record: twice the number.
_SHORT_DELTA_MAX = 63
_NO_METADATA = 1
_TIMESTAMP_SIZE = 8
# The start of a batch of one record behind its checksum: no attributes, and a last offset delta of 0.
_ALONE_HEAD = bytes(2 + 4)
# Producer, epoch and sequence, and the number of records.
_ALONE_PRODUCER = PRODUCER_AND_COUNT.pack(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 1)

# The bound of the cache, which is cleared when it is full.
_REMEMBERED_MAX = 1 << 14


class RepeatedCommit:
    """A request for one partition without metadata, with its topic and its shard looked up.

    Valid as long as `topics` is the cluster's image of topics: the topic may be deleted, or be created again.
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
        # The first request, for checks of the other fields and for error responses.
        self.request = request
        self.topics = topics
        self.shape = shape
        self.topic_id = topic.topic_id
        self._version = version
        self._answer = shape.good_answer(version, topic.name, request.topics[0].topic_id)
        # The group's partition of the offsets topic, and the number of partitions of that topic.
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
        if shard is None or not shard.can_append_alone(self.shape.content_size):
            return groups.submit(self.request.group_id, partial(self._decide, offset, leader_epoch))
        check_commit(shard.state, self.request, self._version)
        checksummed = self._pack_alone(
            _ALONE_HEAD, now_ms, now_ms, self._alone_middle, offset, leader_epoch, _NO_METADATA, now_ms, self._end
        )
        appended = shard.append_alone(checksummed, self._answer, now_ms)
        self.replay(shard.state, offset, leader_epoch, now_ms)
        return appended

    def record(self, offset: int, leader_epoch: int, now_ms: int, *, offset_delta: int, timestamp_delta: int) -> bytes:
        """The bytes of the record in a batch, for short deltas."""
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
    """A commit as a run of one record."""

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
    """The recent commits, by version and constant bytes."""

    __slots__ = ("_commits", "get")

    def __init__(self) -> None:
        self._commits: dict[tuple[int, bytes, str], RepeatedCommit] = {}
        self.get = self._commits.get

    def __len__(self) -> int:
        return len(self._commits)

    def clear(self) -> None:
        """The topics have changed: no commit is recognised any more, and each would keep the metadata of its time."""
        self._commits.clear()

    def remember(
        self, key: tuple[int, bytes, str], request: OffsetCommitRequest, topics: TopicsImage, groups: GroupCoordinator
    ) -> RepeatedCommit | None:
        """None if the shortcut does not apply; the usual way then finds the error, if there is one."""
        version = key[0]
        (wanted,) = request.topics
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            topic = topics.by_id.get(wanted.topic_id)
        else:
            topic = topics.by_name.get(wanted.name)
        index = wanted.partitions[0].partition_index
        # The coordinator's image may be older and have another topic of that name.
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
        self._commits[key] = repeated
        return repeated
