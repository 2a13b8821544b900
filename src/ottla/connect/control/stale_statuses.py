"""The leader's clean-up after deleted connectors and tasks: statuses, and transactions that dead workers left open."""

from __future__ import annotations

import asyncio
import contextlib

from ottla.client.errors import ClientError
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.local_tasks import transactional_id
from ottla.connect.control.reporting import Background
from ottla.connect.control.states import TaskId
from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.control.stores.status import StatusStore
from ottla.connect.work.engine import Engine
from ottla.model.errors import KafkaError

__all__ = ["StaleStatuses"]


class StaleStatuses:
    def __init__(
        self,
        config: WorkerConfig,
        *,
        store: ConfigStore,
        status: StatusStore,
        engine: Engine,
        background: Background,
    ) -> None:
        self._config = config
        self._store = store
        self._status = status
        self._engine = engine
        self._background = background
        self.is_closing = False

    async def remove(self) -> None:
        """As leader, removes the statuses of deleted connectors and tasks."""
        state = self._store.state
        for name in self._status.connectors():
            if not state.contains(name):
                self._fence_later(name)
                await self._status.reset_topics(name)
                await self._status.remove(name)
                continue
            count = len(state.tasks.get(name, ()))
            extra = [TaskId(name, number) for number in self._status.tasks(name) if number >= count]
            await self._status.remove_tasks(extra)

    def _fence_later(self, name: str) -> None:
        """Aborts open transactions of a deleted connector whose worker is dead, after a grace period.

        Otherwise readers of committed data would wait for the transaction time-out. Living workers stop their tasks
        within the grace period.
        """
        count = max([self._store.state.fencing.get(name, 0), *(number + 1 for number in self._status.tasks(name))])
        ids = [transactional_id(self._config, TaskId(name, number)) for number in range(count)]
        grace = self._config.settings.integer("task.shutdown.graceful.timeout.ms") / 1000
        if ids:
            asyncio.get_running_loop().call_later(grace, lambda: self._background.start(self.fence_deleted(name, ids)))

    async def fence_deleted(self, name: str, transactional_ids: list[str]) -> None:
        # A connector of the same name that was created meanwhile has fenced the old tasks and must not be fenced.
        if not self.is_closing and not self._store.state.contains(name):
            # If the fencing fails, the transaction time-out aborts the transactions.
            with contextlib.suppress(KafkaError, ClientError):
                await self._engine.fence(transactional_ids)
