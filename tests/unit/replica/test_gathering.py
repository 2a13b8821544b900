"""A busy leader answers its followers a moment later, with more."""

from __future__ import annotations

from ottla.model.deferred import Deferred
from ottla.replica.gathering import BUSY_MS, GATHERED_BYTES, GATHERED_BYTES_MIN, GATHERING_MS
from ottla.wire.messages.fetch import FetchResponse
from tests.support.data_path import DataPath
from tests.unit.replica.test_fetch import answered, texts, waiting


def test_a_follower_of_a_busy_leader_gets_more_a_moment_later(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2))
    node.append("t", "a" * GATHERED_BYTES_MIN)
    poll = waiting(node.fetch("t", {0: 0}, max_wait_ms=500, replica_id=2))
    node.append("t", "b")
    node.virtual.scheduler.run()
    assert not poll.done
    node.virtual.scheduler.advance(GATHERING_MS)
    assert texts(poll.result()) == {0: ["a" * GATHERED_BYTES_MIN, "b"]}
    assert not node.partition("t").parked_replica_fetches
    # It was answered with something, when it was to be.
    assert node.replicas.parking.timeouts == 0


def test_who_waits_for_a_busy_leader_waits_a_moment_longer(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2))
    scheduler, much = node.virtual.scheduler, "a" * GATHERED_BYTES_MIN
    session_id = answered(node.fetch("t", {0: 0}, replica_id=2, session_epoch=0)).session_id

    def ask(epoch: int) -> Deferred[FetchResponse]:
        options = {"replica_id": 2, "session_id": session_id, "session_epoch": epoch, "max_wait_ms": 500}
        return waiting(node.fetch("t", {0: node.partition("t").log.log_end_offset - (epoch == 1)}, **options))

    node.append("t", much)
    assert not ask(1).done
    scheduler.advance(GATHERING_MS)
    poll = ask(2)
    node.append("t", much)
    node.append("t", "b")
    scheduler.run()
    assert not poll.done
    scheduler.advance(GATHERING_MS)
    assert texts(poll.result()) == {0: [much, "b"]}
    assert node.replicas.parking.timeouts == 0
    # The leader has been calm for a while.
    poll = ask(3)
    scheduler.advance(BUSY_MS)
    node.append("t", much)
    scheduler.run()
    assert texts(poll.result()) == {0: [much]}


def test_a_moment_ends_when_there_is_enough(node: DataPath) -> None:
    node.create_topic("t", 2, replicas=(1, 2))
    half = "a" * (GATHERED_BYTES // 2)
    limits = {"max_wait_ms": 500, "max_bytes": 10 << 20, "partition_max_bytes": 4 << 20}
    node.append("t", half)
    poll = waiting(node.fetch("t", {0: 0, 1: 0}, replica_id=2, **limits))
    node.append("t", half, index=1)
    node.virtual.scheduler.run()
    assert texts(poll.result()) == {0: [half], 1: [half]}


def test_a_follower_that_is_behind_is_not_kept(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2))
    node.append("t", "a" * GATHERED_BYTES_MIN)
    node.append("t", "b" * GATHERED_BYTES_MIN)
    limit = GATHERED_BYTES_MIN + 1000
    response = answered(node.fetch("t", {0: 0}, max_wait_ms=500, partition_max_bytes=limit, replica_id=2))
    assert texts(response) == {0: ["a" * GATHERED_BYTES_MIN]}


def test_a_consumer_of_a_busy_leader_is_not_kept(node: DataPath) -> None:
    node.create_topic("t")
    node.append("t", "a" * GATHERED_BYTES_MIN)
    assert texts(answered(node.fetch("t", {0: 0}, max_wait_ms=500))) == {0: ["a" * GATHERED_BYTES_MIN]}
