"""The pauses of a fetch loop with very many partitions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.replica.follower_fetch_loop import ReplicaFetcher
from ottla.wire.peers import Endpoint
from tests.support.virtual_world import VirtualWorld

PARTITIONS = 1_000
LONG_MS, SHORT_MS = 1_000, 10


class Paused:
    """A followed partition that counts its retries."""

    is_failed = False
    is_held_back = False

    def __init__(self, index: int) -> None:
        self.key = (bytes(16), index)
        self.retried_ms: list[int] = []

    def leave_session(self) -> None:
        pass

    def throttle(self, *, is_held_back: bool) -> None:
        pass


class Compared(int):
    """A time that counts its comparisons."""

    comparisons = 0

    def __add__(self, other: int) -> Compared:
        return Compared(int(self) + other)

    def __lt__(self, other: int) -> bool:
        Compared.comparisons += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        Compared.comparisons += 1
        return int(self) > other


def fetcher(virtual: VirtualWorld) -> ReplicaFetcher:
    unused = cast(Any, None)
    return ReplicaFetcher(
        node_id=1,
        leader_id=2,
        endpoint=Endpoint("h", 1),
        purpose="test",
        world=virtual.world,
        peers=unused,
        settings=unused,
        broker_epoch=lambda: 1,
        throttles=unused,
    )


def test_short_pauses_do_not_look_at_every_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that fail for the first time pause for a moment, while those that fail again and again pause long."""
    virtual = VirtualWorld()
    loop = fetcher(virtual)
    partitions: Any = [Paused(index) for index in range(2 * PARTITIONS)]
    loop._followed = {partition.key: partition for partition in partitions}
    monkeypatch.setattr(loop, "_now_ms", lambda: Compared(round(virtual.clock.monotonic() * 1000)))
    monkeypatch.setattr(loop, "_enter_session", lambda partition, **_: partition.retried_ms.append(int(loop._now_ms())))
    began_ms = int(loop._now_ms())
    Compared.comparisons = 0
    for number, partition in enumerate(partitions):
        loop._pause_for(partition, LONG_MS if number < PARTITIONS else SHORT_MS)
    assert Compared.comparisons < 50 * PARTITIONS
    virtual.scheduler.advance(LONG_MS)
    retried = [partition.retried_ms for partition in partitions]
    assert retried == [[began_ms + LONG_MS]] * PARTITIONS + [[began_ms + SHORT_MS]] * PARTITIONS
