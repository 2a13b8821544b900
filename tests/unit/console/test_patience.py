"""A cluster that does not answer: reads time out soon, and live figures report it."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.console import live
from ottla.console.live import Live
from ottla.console.view import Cached

SETTINGS = ClientSettings(bootstrap_servers=parse_bootstrap("localhost:1"), api_timeout_ms=60_000)


def test_a_cached_read_has_less_time_than_other_calls() -> None:
    async def scenario() -> None:
        cluster = Cluster(SETTINGS)
        loop = asyncio.get_running_loop()

        async def time_left() -> float:
            return cluster.deadline() - loop.time()

        cached = Cached(time_left, fresh_seconds=1.0, usable_seconds=1.0, timeout_ms=5_000)
        assert await cached.get() <= 5.0
        assert await time_left() > 5.0

    asyncio.run(scenario())


class SilentView:
    """A view of a cluster that answered once, and then no more."""

    def __init__(self) -> None:
        self.state = self.groups = self
        self.value = "known"

    async def get(self, **_: Any) -> Any:
        await asyncio.Event().wait()


class SilentAdmin:
    def __init__(self) -> None:
        self.cluster = self

    async def describe(self, **_: Any) -> Any:
        await asyncio.Event().wait()


class NoMetrics:
    async def traffic(self) -> None:
        return None


def test_viewers_are_told_that_the_cluster_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "READ_SECONDS_MAX", 0.01)

    async def scenario() -> None:
        admin: Any = SilentAdmin()
        view: Any = SilentView()
        metrics: Any = NoMetrics()
        feed = Live(admin, view, metrics)
        async with feed.watched() as queue:
            event = json.loads((await queue.get()).split(b"data: ")[1])
        assert (event["health"], event["error"]) == ("unreachable", "The cluster does not answer.")

    asyncio.run(scenario())


def test_a_viewer_may_leave_at_any_moment(recwarn: pytest.WarningsRecorder) -> None:
    async def scenario() -> None:
        for turns in range(8):
            admin: Any = SilentAdmin()
            view: Any = SilentView()
            metrics: Any = NoMetrics()
            feed = Live(admin, view, metrics)
            async with feed.watched():
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert not feed.is_reading

    asyncio.run(scenario())
    gc.collect()
    assert [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)] == []
