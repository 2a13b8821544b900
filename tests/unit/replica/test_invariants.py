"""The invariants of partitions, logs and fetch sessions hold in use, and notice a state that must not exist."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.model.errors import ErrorCode
from ottla.replica.fetch_sessions import FetchSession
from ottla.replica.partition import Partition
from tests.support.replica_cluster import ReplicaCluster


def high_watermark_beyond_the_log(partition: Partition) -> None:
    partition.log.high_watermark = partition.log.log_end_offset + 1


def log_start_beyond_the_high_watermark(partition: Partition) -> None:
    partition.log.log_start_offset = partition.log.high_watermark + 1


def in_sync_without_a_replica(partition: Partition) -> None:
    assert partition.leader_state is not None
    partition.leader_state.commit_isr((1, 2, 9))


def committed_outside_of_the_maximal_set(partition: Partition) -> None:
    assert partition.leader_state is not None
    partition.leader_state.maximal_isr = frozenset({1})


def follower_ahead_of_its_leader(partition: Partition) -> None:
    progress = partition.follower_progress(2)
    assert progress is not None
    progress.log_end_offset = partition.log.log_end_offset + 1


def leader_of_another_epoch(partition: Partition) -> None:
    partition.leader_epoch += 1


def leader_that_refuses(partition: Partition) -> None:
    partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR


def recovery_point_beyond_the_log(partition: Partition) -> None:
    partition.log._tail.durability.recovery_point = partition.log.log_end_offset + 1


@pytest.mark.parametrize(
    "break_state",
    [
        high_watermark_beyond_the_log,
        log_start_beyond_the_high_watermark,
        in_sync_without_a_replica,
        committed_outside_of_the_maximal_set,
        follower_ahead_of_its_leader,
        leader_of_another_epoch,
        leader_that_refuses,
        recovery_point_beyond_the_log,
    ],
)
def test_a_broken_partition_is_noticed(pair: ReplicaCluster, break_state: Callable[[Partition], None]) -> None:
    pair.create_topic()
    pair.run(100)
    partition = pair[1].partition()
    partition.invariants()
    break_state(partition)
    with pytest.raises(AssertionError):
        partition.invariants()


def test_a_live_entry_of_another_session_is_noticed(pair: ReplicaCluster) -> None:
    pair.create_topic()
    # The first fetch opens a session with its response, which leaves after the fetch wait.
    pair.run(1_000)
    sessions = pair[1].replicas.sessions
    sessions.invariants()
    session: FetchSession = next(iter(sessions._sessions.values()))
    assert session.live is not None
    entry = session.entries.popitem()[1]
    session.live[entry] = None
    with pytest.raises(AssertionError):
        sessions.invariants()
