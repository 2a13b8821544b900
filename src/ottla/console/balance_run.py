"""Runs a balancing plan step by step, as `ottla balance run` does. A console runs a single plan at a time.

The plan is in a journal while it runs. After the run or the console was stopped, `resume` continues the plan, here or
on the command line: the cluster is asked which moves are done.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.balance.execute import Executor, ProducersSuffer, find_topic_ids, told_skips
from ottla.balance.guard import LatencyGuard
from ottla.balance.journal import Journal, JournalInUse
from ottla.balance.steps import Step
from ottla.cli.failures import sentence_of
from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.console.answers import ApiError
from ottla.model.errors import KafkaError

__all__ = ["BalanceRun"]

logger = logging.getLogger(__name__)

# How long a request waits until the step is taken back.
STOP_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 3.0


class _Watch:
    """The guard that can stop the executor: at the request of a user, or because producers wait too long."""

    def __init__(self) -> None:
        self.stopped_by: str | None = None
        self.latency: LatencyGuard | None = None

    def complaint(self) -> str | None:
        if self.stopped_by is not None:
            return f"{self.stopped_by} stopped the run."
        return None if self.latency is None else self.latency.complaint()


class BalanceRun:
    def __init__(self, journal: Path) -> None:
        self._path = journal
        self._task: asyncio.Task[None] | None = None
        self._watch = _Watch()
        self._progress: dict[str, Any] = {}

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def progress(self) -> dict[str, Any]:
        """`idle`, `running`, `interrupted` (a journal is left) or `done`, and how far the run has come."""
        if self.is_running:
            state = "running"
        elif self._path.exists():
            state = "interrupted"
        else:
            state = "done" if self._progress else "idle"
        return {
            "user": None,
            "began": None,
            "step": 0,
            "steps": 0,
            "partitions_done": 0,
            "partitions": 0,
            "message": None,
            **self._progress,
            "state": state,
        }

    async def start(
        self,
        client: ClientSettings,
        steps: Sequence[Step],
        *,
        throttle: int | None,
        factor: float | None,
        drained: Sequence[int],
        user: str,
    ) -> None:
        """Raises ApiError 409 if another run is not finished, or the journal cannot be written."""
        async with AdminClient(client) as admin:
            cluster_id = (await admin.cluster.describe()).cluster_id
            topic_ids = await find_topic_ids(admin, steps)
        # Nothing is awaited from here on, because another request may start a plan, too.
        self._check_free()
        if self._path.exists():
            raise ApiError(
                409, "NOT_FINISHED", f"{self._path} has a plan that was not finished.", "Resume it, or remove the file."
            )
        journal = Journal(self._path, cluster_id, steps, throttle, drained=drained, topic_ids=topic_ids)
        try:
            journal.write()
        except OSError as error:
            raise ApiError(
                409,
                "NOT_AVAILABLE",
                f"The plan cannot be kept in {self._path}: {error.strerror}.",
                "Run the command instead, or start the console with --journal FILE.",
            ) from None
        self._begin(client, journal, factor, user)

    def interrupted(self) -> Journal:
        """The plan that was interrupted. Raises ApiError 409 if there is none."""
        self._check_free()
        try:
            return Journal.read(self._path)
        except (ValueError, OSError) as error:
            raise ApiError(409, "NOTHING_TO_DO", str(error)) from None

    async def resume(self, client: ClientSettings, *, factor: float | None, user: str) -> Journal:
        journal = self.interrupted()
        async with AdminClient(client) as admin:
            cluster_id = (await admin.cluster.describe()).cluster_id
        if journal.cluster_id != cluster_id:
            raise ApiError(409, "INVALID_REQUEST", f"{self._path} is of the cluster {journal.cluster_id}.")
        self._check_free()
        self._begin(client, journal, factor, user)
        return journal

    async def stop(self, user: str) -> None:
        """Takes back the current step; earlier steps stay. Raises ApiError 409 if no plan runs."""
        if self._task is None or self._task.done():
            raise ApiError(409, "NOTHING_TO_DO", "No plan is running.")
        self._watch.stopped_by = user
        await asyncio.wait({self._task}, timeout=STOP_SECONDS_MAX)

    async def close(self) -> None:
        """Stops with the console: moves that have begun continue, the throttles are removed, and the journal stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS_MAX)

    def _check_free(self) -> None:
        if self.is_running:
            raise ApiError(409, "NOT_FINISHED", "A plan is running.", "GET /api/balance tells how far it is.")

    def _begin(self, client: ClientSettings, journal: Journal, factor: float | None, user: str) -> None:
        partitions = sum(len(step.movements) for step in journal.steps)
        self._progress = {
            "user": user,
            "began": int(time.time() * 1000),
            "steps": len(journal.steps),
            "partitions": partitions,
        }
        self._watch = _Watch()
        self._task = asyncio.ensure_future(self._run(client, journal, factor))

    async def _run(self, client: ClientSettings, journal: Journal, factor: float | None) -> None:
        before = [0]
        for step in journal.steps:
            before.append(before[-1] + len(step.movements))

        def on_step(number: int, step: Step, moving: int) -> None:
            done = before[number] + len(step.movements) - moving
            self._progress |= {"step": number + 1, "partitions_done": done}

        try:
            with journal.locked():
                async with AdminClient(client) as admin:
                    executor = Executor(
                        admin,
                        throttle=journal.throttle,
                        guard=self._watch,
                        on_step=on_step,
                        topic_ids=journal.topic_ids,
                    )
                    if factor is None:
                        await executor.run(journal.steps)
                    else:
                        async with LatencyGuard(client, factor=factor, without=journal.drained) as self._watch.latency:
                            await executor.run(journal.steps)
                journal.remove()
        except (ProducersSuffer, JournalInUse, KafkaError, ClientError, OSError) as error:
            is_sentence = isinstance(error, ProducersSuffer | JournalInUse)
            self._progress["message"] = str(error) if is_sentence else sentence_of(error)
            logger.warning("The balancing plan in %s was interrupted: %s", self._path, error)
        else:
            done = before[-1] - len(executor.skipped)
            self._progress |= {"step": len(journal.steps), "partitions_done": done}
            logger.info("The balancing plan of %s is done: %s partitions", self._progress["user"], done)
            if executor.skipped:
                self._progress["message"] = told_skips(executor.skipped)
                logger.warning("The balancing plan of %s: %s", self._progress["user"], self._progress["message"])
