"""Offsets of a commit are written as a run: the same bytes and the same state as message by message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.offsets.run import CommitRun, CommittedTopic
from ottla.coordinator.group.offsets.table import NO_EXPIRY
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.model.ids import Uuid
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition

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
    run = CommitRun(group)
    shared = CommittedTopic(group, topic, topic_id=topic_id, now_ms=NOW_MS, expire_timestamp_ms=expire_timestamp)
    committed = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )
    run.add(shared, [committed])
    (content,) = run.contents
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=NOW_MS,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert content == GROUP_RECORDS.encode_content((key, value))
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


def test_an_offset_that_expires_and_one_without_a_topic_id_are_written_in_their_own_versions() -> None:
    expiring = run_of("g", "t", 3, expire_timestamp=NOW_MS + 1)
    nameless = run_of("g", "t", 3, topic_id=Uuid.ZERO)
    assert len({expiring, nameless, run_of("g", "t", 3)}) == 3
