"""Opens tasks in the background, while the tasks that are open keep running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container

from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.opening import close_quietly
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.task_table import ActiveTask

__all__ = ["Openings"]


class Openings:
    """`planned` are the tasks that are not open yet, by task id. They are opened together."""

    def __init__(
        self,
        open_tasks: Callable[[list[PlannedTask]], Awaitable[list[ActiveTask]]],
        local: LocalStates,
        running: Container[str],
    ) -> None:
        self._open_tasks = open_tasks
        self._local = local
        self._running = running
        self._work: asyncio.Future[list[ActiveTask]] | None = None
        self.planned: dict[str, PlannedTask] = {}

    async def start(self, tasks: dict[str, PlannedTask]) -> None:
        """Opens these tasks only: an opening that is under way is interrupted."""
        await self.stop()
        self.planned = tasks
        if tasks:
            self._work = asyncio.ensure_future(self._open_tasks(list(tasks.values())))

    async def stop(self) -> dict[str, PlannedTask]:
        """Returns the tasks whose opening it has interrupted."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            (opened,) = await asyncio.gather(work, return_exceptions=True)
            if not isinstance(opened, BaseException):
                # The opening was complete, but its tasks were not taken.
                close_quietly(active.task for active in opened)
        # State of tasks that were opened, but do not run yet.
        self._local.close([task_id for task_id in self.planned if task_id not in self._running], is_committed=False)
        interrupted, self.planned = self.planned, {}
        return interrupted

    def take(self) -> list[ActiveTask]:
        """Tasks that are open now. Raises the error of an opening that failed; its tasks stay `planned`."""
        if self._work is None or not self._work.done():
            return []
        work, self._work = self._work, None
        opened = work.result()
        self.planned = {}
        return opened
