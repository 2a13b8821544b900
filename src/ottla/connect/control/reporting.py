"""Status reports of this worker's connectors and tasks, and work in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.connect.control.states import ConnectorState, State, TaskId
from ottla.connect.control.stores.status import StatusStore

__all__ = ["Background", "StatusReports"]

logger = logging.getLogger(__name__)


class Background:
    """Coroutines in the background. They are cancelled when the worker stops."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def cancel(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class StatusReports:
    """Writes statuses to the status store. A failed write is logged and does not fail the work."""

    def __init__(self, status: StatusStore, *, worker_id: str, hide: Callable[[str], str]) -> None:
        self._status = status
        self._worker_id = worker_id
        self._hide = hide
        # The group's generation, which is part of every status.
        self.generation = 0

    async def write(
        self,
        subject: str | TaskId,
        state: State,
        *,
        trace: str | None = None,
        version: str | None = None,
        safe: bool = False,
    ) -> None:
        """Reports the state of a connector (a name) or a task."""
        status = ConnectorState(
            state=state,
            worker_id=self._worker_id,
            generation=self.generation,
            trace=None if trace is None else self._hide(trace),
            version=version,
        )
        try:
            await self._status.put(subject, status, safe=safe)
        except Exception:
            logger.exception("Reporting %s of %s failed", state.value, subject)
