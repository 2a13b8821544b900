"""Offsets of a commit are written as a run: the same bytes and the same state as message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.offsets.run import CommitColumns, CommitRun
from ottla.coordinator.group.offsets.shape import CommitShape, CommitShapes
from ottla.coordinator.group.offsets.table import NO_EXPIRY, OffsetsOfTopic, OffsetTable
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.ids import Uuid
from ottla.records.record import append_contents
from ottla.wire.codec import encode
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitResponse

TOPIC_ID = Uuid(bytes(range(16)))
NOW_MS = 1_700_000_000_123


def run_of(
    group: str,
    topic: str,
    partition: int,
    *,
    offset: int = 7,
    leader_epoch: int = -1,
    metadata: str = "",
    expire_timestamp: int = NO_EXPIRY,
    topic_id: Uuid = TOPIC_ID,
) -> bytes:
    committed = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )
    columns = CommitColumns.of([committed])
    run = CommitRun(group)
    run.add(
        CommitShape(group, topic, columns.indexes),
        columns,
        topic_id=topic_id,
        now_ms=NOW_MS,
        expire_timestamp_ms=expire_timestamp,
    )
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=NOW_MS,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    content = GROUP_RECORDS.encode_content((key, value))
    assert (run.count, run.size_bytes) == (1, len(content))
    # As the first of its batch, and behind others at a later time.
    for first_offset_delta, timestamp_delta in ((0, 0), (0, 3), (70, 0)):
        written, expected = bytearray(b"before"), bytearray(b"before")
        where = {"first_offset_delta": first_offset_delta, "timestamp_delta": timestamp_delta}
        run.write(written, **where)
        append_contents(expected, [content], **where)
        assert written == expected
    return content


@given(
    group=st.text(max_size=300),
    topic=st.text(min_size=1, max_size=249),
    partition=st.integers(0, (1 << 31) - 1),
    offset=st.integers(0, (1 << 63) - 1),
    leader_epoch=st.integers(-1, (1 << 31) - 1),
    metadata=st.text(max_size=150),
)
def test_the_bytes_are_those_of_the_messages(
    group: str, topic: str, partition: int, offset: int, leader_epoch: int, metadata: str
) -> None:
    run_of(group, topic, partition, offset=offset, leader_epoch=leader_epoch, metadata=metadata)


@pytest.mark.parametrize("length", [0, 1, 21, 22, 126, 127, 128, 4096])
def test_metadata_of_every_kind_of_length(length: int) -> None:
    run_of("g", "t", 3, metadata="m" * length)


@pytest.mark.parametrize("count", [2, 64, 65, 128])
def test_many_partitions_are_written_and_kept_as_if_one_by_one(count: int) -> None:
    indexes = tuple(range(5, 5 + count))
    columns = CommitColumns(indexes, [1000 + index for index in indexes], [index % 3 - 1 for index in indexes], None)
    shape = CommitShape("g", "t", indexes)
    run = CommitRun("g")
    run.add(shape, columns, topic_id=TOPIC_ID, now_ms=NOW_MS, expire_timestamp_ms=NO_EXPIRY)
    contents = [
        GROUP_RECORDS.encode_content(
            (
                OffsetCommitKey(group="g", topic="t", partition=index),
                OffsetCommitValue(
                    offset=1000 + index, leader_epoch=index % 3 - 1, commit_timestamp=NOW_MS, topic_id=TOPIC_ID
                ),
            )
        )
        for index in indexes
    ]
    for first_offset_delta in (0, 1):
        written, expected = bytearray(), bytearray()
        run.write(written, first_offset_delta=first_offset_delta, timestamp_delta=0)
        append_contents(expected, contents, first_offset_delta=first_offset_delta, timestamp_delta=0)
        assert written == expected
    table = OffsetTable()
    kept = OffsetsOfTopic(shape.places, columns.offsets, columns.leader_epochs, None, NOW_MS, NO_EXPIRY, TOPIC_ID)
    table.put("g", shape.partitions, kept)
    offsets = table.of_group("g")
    assert [(where.partition, committed.offset, committed.leader_epoch) for where, committed in offsets.items()] == [
        (index, 1000 + index, index % 3 - 1) for index in indexes
    ]


def test_the_answer_is_what_the_encoder_makes_of_it() -> None:
    shape = CommitShape("g", "t", (3, 1))
    for version, name, topic_id in (
        (2, "t", Uuid.ZERO),
        (3, "t", Uuid.ZERO),
        (9, "t", Uuid.ZERO),
        (10, "t", TOPIC_ID),
        (10, "t", Uuid(bytes(15) + b"x")),
    ):
        answer = shape.good_answer(version, name, topic_id)
        (topic,) = answer.unpacked(OffsetCommitResponse, version).topics
        assert answer.body == encode(OffsetCommitResponse(topics=[topic]), version)
        throttled = OffsetCommitResponse(topics=[topic], throttle_time_ms=70)
        assert answer.throttled(70).body == encode(throttled, version)
        assert answer.throttle_time_ms == 0, "the answer is shared"
        assert topic.topic_id == (topic_id if version >= 10 else Uuid.ZERO)
        assert [partition.partition_index for partition in topic.partitions] == [3, 1]
        assert shape.good_answer(version, name, topic_id) is answer


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.group.offsets.shape._WEIGHT_REMEMBERED_MAX", 10)
    shapes = CommitShapes()
    first = shapes.of("g", "t", (0, 1, 2))
    assert shapes.of("g", "t", (0, 1, 2)) is first
    shapes.of("g", "t", (3, 4, 5))
    assert shapes.of("g", "t", (0, 1, 2)) is not first
    long_name = "x" * 201
    assert shapes.of(long_name, "t", (0,)) is not shapes.of(long_name, "t", (0,))


def test_shapes_of_deleted_topics_are_forgotten_and_give_their_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.group.offsets.shape._WEIGHT_REMEMBERED_MAX", 15)
    shapes = CommitShapes()
    kept = shapes.of("g", "kept", (0,))
    for number in range(100):
        shapes.of("g", f"churn-{number}", (0, 1))
        shapes.forget_topics([f"churn-{number}", "never seen"])
    assert len(shapes) == 1
    assert shapes.of("g", "kept", (0,)) is kept


def test_an_offset_that_expires_and_one_without_a_topic_id_are_written_in_their_own_versions() -> None:
    expiring = run_of("g", "t", 3, expire_timestamp=NOW_MS + 1)
    nameless = run_of("g", "t", 3, topic_id=Uuid.ZERO)
    assert len({expiring, nameless, run_of("g", "t", 3)}) == 3
