"""A busy leader answers its followers a moment later, with more."""

from __future__ import annotations

from ottla.model.deferred import Deferred
from ottla.replica.gathering import (
    BUSY_BYTES_PER_MS,
    GATHERED_BYTES,
    GATHERED_BYTES_MIN,
    GATHERING_MS,
    WINDOW_MS,
    FollowerRate,
)
from ottla.wire.messages.fetch import FetchResponse
from tests.support.data_path import DataPath
from tests.unit.replica.test_fetch import answered, texts, waiting

MUCH = "a" * GATHERED_BYTES_MIN


class Follower:
    """Fetches partition 0 of the topic "t" in a session."""

    def __init__(self, node: DataPath) -> None:
        self._node = node
        self._epoch = 0
        self._offset = 0
        self._session_id = answered(node.fetch("t", {0: 0}, replica_id=2, session_epoch=0)).session_id

    def ask(self, **limits: int) -> FetchResponse | Deferred[FetchResponse]:
        """Fetches behind what was received so far."""
        self._epoch += 1
        session = {"session_id": self._session_id, "session_epoch": self._epoch}
        return self._node.fetch("t", {0: self._offset}, replica_id=2, **{"max_wait_ms": 500, **session, **limits})

    def receive(self, response: FetchResponse) -> dict[int, list[str]]:
        received = texts(response)
        self._offset += len(received[0])
        return received

    def load(self, bytes_per_ms: int = BUSY_BYTES_PER_MS + 1000) -> None:
        """Receives at this rate for a while, and stops."""
        for _ in range(WINDOW_MS // 2 + 1):
            self._node.append("t", "b" * (2 * bytes_per_ms))
            self.receive(answered(self.ask()))
            self._node.virtual.scheduler.advance(2)


def busy_follower(node: DataPath, partitions: int = 1) -> Follower:
    node.create_topic("t", partitions, replicas=(1, 2))
    follower = Follower(node)
    follower.load()
    return follower


def test_a_follower_of_a_busy_leader_gets_more_a_moment_later(node: DataPath) -> None:
    follower = busy_follower(node)
    node.append("t", MUCH)
    poll = waiting(follower.ask())
    node.append("t", "c")
    node.virtual.scheduler.run()
    assert not poll.done
    node.virtual.scheduler.advance(GATHERING_MS)
    assert follower.receive(poll.result()) == {0: [MUCH, "c"]}
    assert not node.partition("t").parked_replica_fetches
    # The fetch got records at the planned time, so it did not time out.
    assert node.replicas.parking.timeouts == 0


def test_who_waits_for_a_busy_leader_waits_a_moment_longer(node: DataPath) -> None:
    follower = busy_follower(node)
    poll = waiting(follower.ask())
    node.append("t", MUCH)
    node.append("t", "c")
    node.virtual.scheduler.run()
    assert not poll.done
    node.virtual.scheduler.advance(GATHERING_MS)
    assert follower.receive(poll.result()) == {0: [MUCH, "c"]}
    assert node.replicas.parking.timeouts == 0


def test_a_burst_at_a_moderate_rate_is_answered_at_once(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2))
    follower = Follower(node)
    node.append("t", MUCH)
    assert follower.receive(answered(follower.ask())) == {0: [MUCH]}
    # Many records each time, but not per millisecond.
    follower.load(bytes_per_ms=GATHERED_BYTES_MIN // 2)
    node.append("t", MUCH)
    assert follower.receive(answered(follower.ask())) == {0: [MUCH]}


def test_a_leader_that_was_calm_for_a_while_is_not_busy(node: DataPath) -> None:
    follower = busy_follower(node)
    poll = waiting(follower.ask())
    node.virtual.scheduler.advance(2 * WINDOW_MS)
    node.append("t", MUCH)
    node.virtual.scheduler.run()
    assert follower.receive(poll.result()) == {0: [MUCH]}


def test_few_records_of_a_busy_leader_are_sent_at_once(node: DataPath) -> None:
    follower = busy_follower(node)
    node.append("t", "c")
    assert follower.receive(answered(follower.ask())) == {0: ["c"]}


def test_a_moment_ends_when_there_is_enough(node: DataPath) -> None:
    follower = busy_follower(node)
    half = "a" * (GATHERED_BYTES // 2)
    node.append("t", half)
    poll = waiting(follower.ask(max_bytes=10 << 20, partition_max_bytes=4 << 20))
    node.append("t", half)
    node.virtual.scheduler.run()
    assert follower.receive(poll.result()) == {0: [half, half]}


def test_a_follower_that_is_behind_is_not_kept(node: DataPath) -> None:
    follower = busy_follower(node)
    node.append("t", MUCH)
    node.append("t", "b" * GATHERED_BYTES_MIN)
    response = answered(follower.ask(partition_max_bytes=GATHERED_BYTES_MIN + 1000))
    assert follower.receive(response) == {0: [MUCH]}


def test_a_follower_that_does_not_wait_is_not_kept(node: DataPath) -> None:
    follower = busy_follower(node)
    node.append("t", MUCH)
    assert follower.receive(answered(follower.ask(max_wait_ms=GATHERING_MS))) == {0: [MUCH]}


def test_a_consumer_of_a_busy_leader_is_not_kept(node: DataPath) -> None:
    node.create_topic("t")
    for _ in range(2 * WINDOW_MS):
        node.append("t", MUCH)
        node.virtual.scheduler.advance(1)
        offset = node.partition("t").high_watermark - 1
        assert texts(answered(node.fetch("t", {0: offset}, max_wait_ms=500))) == {0: [MUCH]}


def test_the_rate_of_a_follower_is_that_of_the_last_whole_window() -> None:
    rate = FollowerRate()
    now_ms = 1_000_000
    rate.add(10 * BUSY_BYTES_PER_MS * WINDOW_MS, now_ms)
    assert not rate.is_busy(now_ms), "a single response is no rate"
    rate.add(1, now_ms + WINDOW_MS)
    assert rate.is_busy(now_ms + WINDOW_MS)
    assert rate.is_busy(now_ms + 3 * WINDOW_MS - 1)
    assert not rate.is_busy(now_ms + 3 * WINDOW_MS), "nothing was sent for two windows"
    rate.add(BUSY_BYTES_PER_MS * WINDOW_MS, now_ms + 2 * WINDOW_MS)
    assert not rate.is_busy(now_ms + 2 * WINDOW_MS), "one byte in a window"
