"""A worker that is removed from its group while it gives up a part of its work."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ottla.client.classic_member import Heartbeat
from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.distributed.group import GroupSettings, WorkerGroup
from ottla.connect.control.herder import Herder
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import ConfigState


class Member:
    """Joins, and is removed with its first heartbeat."""

    member_id, is_member, is_silent = "m", False, False

    async def join(self, _metadata: object) -> Any:
        self.is_member = True
        return SimpleNamespace(leader="other", member_id="m", generation_id=1)

    async def sync(self, *_: object) -> bytes:
        return b'{"leader_url":"","config_offset":0,"connectors":[],"tasks":[]}'

    async def heartbeat(self, **_: object) -> Heartbeat:
        self.is_member = False
        return Heartbeat.REMOVED


class Reconciler:
    """Has a task that takes long to stop: until the worker knows that it was removed."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.has_lost = asyncio.Event()
        self.is_running = True

    async def assign(self, *_: object, **__: object) -> bool:
        async with self.lock:
            await self.has_lost.wait()
        return True

    async def lose_everything(self) -> None:
        self.has_lost.set()
        async with self.lock:
            self.is_running = False


def test_all_work_ends_before_the_next_join() -> None:
    async def scenario() -> None:
        herder: Any = Herder.__new__(Herder)
        herder.reconciler, herder.ready = Reconciler(), asyncio.Event()
        herder.routing = Routing("http://here/", is_distributed=True)
        herder.config = SimpleNamespace(group_id="g")
        state = ConfigState(offset=0)
        herder._stores = SimpleNamespace(config=SimpleNamespace(state=state))

        async def refresh() -> ConfigState:
            return state

        anything: Any = None
        group = WorkerGroup(
            anything,
            GroupSettings(group_id="g", session_timeout_ms=1000, rebalance_timeout_ms=1000, heartbeat_interval_ms=1),
            url="http://here/",
            refresh=refresh,
            owned=Ownership,
            on_assigned=herder._on_assigned,
            on_lost=herder._on_lost,
        )
        member: Any = Member()
        group.member, herder._group = member, group
        async with asyncio.timeout(10):
            await group._round()
        assert not herder.reconciler.is_running
        assert not herder.ready.is_set()

    asyncio.run(scenario())
