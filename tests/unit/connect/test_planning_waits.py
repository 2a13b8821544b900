"""A connector whose database, or whose brokers, are away when it is planned."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ottla.connect.api import ConnectError, RetriableError, SinkConnector, SinkWriter, Task
from ottla.connect.control import connector_planner as module
from ottla.connect.control.reconciler import Reconciler
from ottla.connect.control.states import State
from ottla.connect.control.stores.config import MemoryConfigStore
from ottla.connect.control.stores.status import MemoryStatusStore
from ottla.model.errors import ErrorCode, KafkaError


class Tables(SinkConnector):
    """A connector whose planning and change detection raise `failures` one after another."""

    failures: ClassVar[list[Exception]] = []

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        if self.failures:
            raise self.failures.pop()
        return [{"tables": "a"}]

    def changed(self, config: Mapping[str, str]) -> bool:
        return bool(self.plan(config, 1)) and False

    def writer(self, task: Task) -> SinkWriter:
        raise NotImplementedError


class Story:
    def __init__(self) -> None:
        self.store, self.status = MemoryConfigStore(), MemoryStatusStore()
        dependencies: Any = {
            "config": SimpleNamespace(group_id="g"),
            "plugins": SimpleNamespace(connector=lambda _name: Tables),
            "engine": None,
            "resolve": dict,
        }
        self.reconciler = Reconciler(worker_id="w", store=self.store, status=self.status, **dependencies)
        # Only what is planned is looked at.
        self.reconciler.local.reconcile = self._nothing  # type: ignore[method-assign]
        self.reconciler.assign_everything()
        self.reconciler.is_leader = False

    async def _nothing(self, _assigned: object) -> None:
        pass

    async def look(self) -> tuple[State | None, int]:
        """Runs one round; returns the connector's state and its number of tasks."""
        await self.reconciler.reconcile()
        await asyncio.gather(*self.reconciler.background.tasks)
        state = self.status.connector("c")
        return None if state is None else state.state, len(self.store.state.tasks.get("c", ()))


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    errors: list[Exception] = []
    monkeypatch.setattr(Tables, "failures", errors)
    monkeypatch.setattr(module, "_PLAN_SECONDS", 0.0)
    return errors


async def begun() -> Story:
    story = Story()
    await story.store.put_connector("c", {"name": "c", "connector.class": "Tables"})
    return story


@pytest.mark.parametrize(
    "error", [RetriableError("the database restarts"), KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "soon")]
)
def test_what_was_away_is_asked_again_until_it_is_there(failures: list[Exception], error: Exception) -> None:
    async def scenario() -> None:
        story = await begun()
        failures.extend([error, error])
        assert await story.look() == (State.FAILED, 0)
        assert await story.look() == (State.FAILED, 0)
        assert await story.look() == (State.RUNNING, 1)
        # And once more, when it was planned already.
        failures.append(error)
        assert await story.look() == (State.FAILED, 1)
        assert await story.look() == (State.RUNNING, 1)

    asyncio.run(scenario())


def test_what_is_wrong_with_a_configuration_stays_wrong(failures: list[Exception]) -> None:
    async def scenario() -> None:
        story = await begun()
        failures.append(ConnectError("there is no such table"))
        assert await story.look() == (State.FAILED, 0)
        assert await story.look() == (State.FAILED, 0)

    asyncio.run(scenario())
