"""Logs that a start could not open for lack of descriptors, memory or room: they are opened while the node runs.

Every second a worker tries again, with a few logs at a time and not further than to the next shortage. While the logs
can be opened it continues at once. Until then these logs count as refused (`refused_logs`): they are not replaced by
empty logs, the checkpoints keep their offsets, and their directories stay in service.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.storage.errors import DISK_RETRY_SECONDS, is_temporary
from ottla.storage.load_jobs import LoadedLog, LoadJob

if TYPE_CHECKING:
    from ottla.model.ids import Uuid
    from ottla.model.ports import World
    from ottla.storage.loading import Loader
    from ottla.storage.refused_logs import RefusedLogs

__all__ = ["LOGS_AT_ONCE", "PostponedLogs"]

logger = logging.getLogger(__name__)

# Logs that a worker opens before the loop's thread takes them: about two milliseconds of its time.
LOGS_AT_ONCE = 16

_Outcome = tuple[LoadJob, LoadedLog | Exception]


class PostponedLogs:
    """`on_opened(loaded, deleted_id)` gets an opened log, and the topic id if its topic was deleted meanwhile."""

    __slots__ = ("_is_stopped", "_jobs", "_loader", "_on_opened", "_refused", "_world")

    def __init__(self, world: World, refused: RefusedLogs, on_opened: Callable[[LoadedLog, Uuid | None], None]) -> None:
        self._world = world
        self._refused = refused
        self._on_opened = on_opened
        self._loader: Loader | None = None
        self._jobs: deque[LoadJob] = deque()
        self._is_stopped = False

    def take(self, loader: Loader) -> None:
        """Takes over the logs that the start could not open. The attempts begin with `start`."""
        self._jobs = loader.postponed
        self._loader = loader if self._jobs else None
        for job in self._jobs:
            self._refused.postpone(job.topic_partition)

    def start(self) -> None:
        if self._jobs:
            self._world.scheduler.call_later(DISK_RETRY_SECONDS, self._try_some)

    def stop(self) -> None:
        self._is_stopped = True

    def _try_some(self) -> None:
        loader = self._loader
        jobs: list[LoadJob] = []
        while self._jobs and len(jobs) < LOGS_AT_ONCE:
            job = self._jobs.popleft()
            if not job.directory.is_offline and self._refused.begin_opening(job.topic_partition):
                jobs.append(job)
        if self._is_stopped or loader is None or not jobs:
            self._loader = None
            return
        tried = self._world.workers.submit(_open_all, loader, jobs)
        tried.when_done(lambda outcome: self._on_tried(loader, jobs, outcome))

    def _on_tried(self, loader: Loader, jobs: list[LoadJob], tried: Deferred[list[_Outcome]]) -> None:
        outcomes = tried.result()
        remaining = jobs[len(outcomes) :]
        for job, opened in outcomes:
            if isinstance(opened, LoadedLog):
                self._take(loader, job, opened)
            elif _is_for_now(opened):
                remaining.append(job)
            else:
                self._refused.fail_opening(job.topic_partition, for_now=False)
                loader.refuse(job, opened)
        self._refused.add_all(loader.refused)
        loader.refused.clear()
        for job in remaining:
            self._refused.fail_opening(job.topic_partition, for_now=True)
            self._jobs.append(job)
        if remaining:
            self._world.scheduler.call_later(DISK_RETRY_SECONDS, self._try_some)
        else:
            self._world.scheduler.call_soon(self._try_some)

    def _take(self, loader: Loader, job: LoadJob, loaded: LoadedLog) -> None:
        if self._is_stopped or job.directory.is_offline:
            loaded.log.files.discard()
            self._refused.fail_opening(job.topic_partition, for_now=False)
            return
        deleted_id = self._refused.end_opening(job.topic_partition)
        logger.warning(
            "The log in %s was opened, which was not possible when the node started: it ends at offset %d",
            job.path,
            loaded.log.log_end_offset,
        )
        loader.note_loss(loaded)
        self._on_opened(loaded, deleted_id)


def _is_for_now(error: Exception) -> bool:
    return isinstance(error, OSError) and is_temporary(error)


def _open_all(loader: Loader, jobs: list[LoadJob]) -> list[_Outcome]:
    """Runs on a worker. After a shortage the other logs are not tried."""
    outcomes: list[_Outcome] = []
    for job in jobs:
        try:
            outcomes.append((job, loader.open(job)))
        except Exception as error:  # noqa: BLE001 (the loop's thread handles it)
            outcomes.append((job, error))
            if _is_for_now(error):
                break
    return outcomes
