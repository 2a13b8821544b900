"""The guard of a balancing run: a guard that cannot send records never lets replicas move unwatched."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from ottla.balance import guard as guard_module
from ottla.balance.guard import LatencyGuard
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings


class Broken:
    """A client that opens, or a producer that fails at its opening or at one of its records."""

    fails_at_opening = False
    records_before_failure = 0

    def __init__(self, *_: object) -> None:
        self.records = 0

    async def __aenter__(self) -> Self:
        if self.fails_at_opening:
            raise ClientError("No broker answers.")
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, *_: object, **__: object) -> None:
        self.records += 1
        if self.records > self.records_before_failure:
            raise RuntimeError("a defect")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> type[Broken]:
    class Producer(Broken):
        pass

    async def ensure_topic(*_: object, **__: object) -> list[int]:
        return [0]

    monkeypatch.setattr(guard_module, "AdminClient", Broken)
    monkeypatch.setattr(guard_module, "Producer", Producer)
    monkeypatch.setattr(guard_module, "ensure_topic", ensure_topic)
    monkeypatch.setattr(guard_module, "INTERVAL_SECONDS", 0.0)
    return Producer


def new_guard() -> LatencyGuard:
    settings: Any = ClientSettings.__new__(ClientSettings)
    return LatencyGuard(settings, window_seconds=0.0)


def test_a_guard_that_cannot_begin_does_not_begin(broken: type[Broken]) -> None:
    broken.fails_at_opening = True

    async def enter() -> None:
        async with new_guard():
            pass

    with pytest.raises(ClientError, match="No broker answers"):
        asyncio.run(enter())


def test_a_guard_that_stops_complains(broken: type[Broken]) -> None:
    broken.records_before_failure = 3

    async def watch() -> str | None:
        async with asyncio.timeout(30), new_guard() as guard:
            while guard.complaint() is None:
                await asyncio.sleep(0)
            return guard.complaint()

    assert asyncio.run(watch()) == "The guard sends no records any more: a defect"


def test_a_broker_that_answers_nothing_is_noticed_beside_brokers_that_answer() -> None:
    async def scenario() -> None:
        guard = new_guard()
        failing: set[int] = {3}

        class Answering:
            async def send(self, *_: object, partition: int, on_delivery: Any) -> None:
                on_delivery(None, ClientError("The delivery timed out.") if partition in failing else None)

        async def end_window() -> None:
            for partition in (0, 1, 2, 3):
                producer: Any = Answering()
                await guard._send(producer, partition)
            guard.judge.end_window()
            guard._usual.set()

        # A partition that had no leader before the run is no reason to stop it.
        for _ in range(5):
            await end_window()
        assert guard.complaint() is None
        failing.add(1)
        for _ in range(3):
            await end_window()
        assert guard.complaint() == "Producers wait 5000 ms (p99); at most 100 ms are accepted."

    asyncio.run(scenario())
