"""A worker that is put out of its group while it still reads what its assignment is about."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.distributed.group import Membership
from ottla.connect.control.herder import Herder
from ottla.connect.control.routing import Routing


class Reconciler:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def assign(self, *_: Any, **__: Any) -> bool:
        self.told.append("assigned")
        return False

    async def lose_everything(self) -> None:
        self.told.append("lost")


@pytest.mark.parametrize(("is_put_out", "told"), [(True, ["lost"]), (False, ["assigned"])])
def test_what_was_given_before_is_not_taken_up_after_it_was_lost(is_put_out: bool, told: list[str]) -> None:
    reconciler = Reconciler()

    async def scenario() -> None:
        herder: Any = Herder.__new__(Herder)
        herder.reconciler, herder.ready, herder._group = reconciler, asyncio.Event(), None
        herder.routing = Routing("http://here/", is_distributed=True)
        herder.config = SimpleNamespace(group_id="g")
        herder._stores = SimpleNamespace(config=SimpleNamespace(state=SimpleNamespace(offset=0)))

        async def refreshed() -> None:
            if is_put_out:
                await herder._on_lost()

        herder._refreshed = refreshed
        membership = Membership(
            generation=1, member_id="m", leader_url="", is_leader=False, assignment=Ownership(), config_offset=5
        )
        assert not await herder._on_assigned(membership)

    asyncio.run(scenario())
    assert reconciler.told == told
