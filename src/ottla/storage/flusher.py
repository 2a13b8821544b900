"""Makes a log durable, one round of fsyncs at a time.

All flushes that are requested during a round share the next round: a thousand appends that have to be durable cost two
rounds, not a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ports import File, Files, Workers

__all__ = ["Flushable", "Flusher", "sync_job"]


class Flushable(Protocol):
    """The object that a flusher makes durable."""

    def begin_round(self) -> Callable[[], None]:
        """The job of a round, for a worker."""

    def must_repeat(self, error: BaseException | None) -> bool:
        """Gets the error of the job, or None. Returns whether the files have been replaced since the round began."""

    def end_round(self, error: BaseException | None) -> BaseException | None:
        """Gets the error of the job, or None. Returns the error for the callers of the flush."""


class Flusher:
    """Refers to the log only during a round, so that a deleted log is freed at once."""

    __slots__ = ("_next", "_running", "_workers")

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._running = False
        self._next: Deferred[None] | None = None

    def flush(self, log: Flushable) -> Deferred[None]:
        if self._running:
            if self._next is None:
                self._next = Deferred()
            return self._next
        done: Deferred[None] = Deferred()
        self._start(log, done)
        return done

    def _start(self, log: Flushable, done: Deferred[None]) -> None:
        self._running = True
        try:
            job = log.begin_round()
        except (OSError, KafkaError) as error:
            self._finish(log, done, error)
            return
        self._workers.submit(job).when_done(lambda outcome: self._finish(log, done, outcome.error))

    def _finish(self, log: Flushable, done: Deferred[None], error: BaseException | None) -> None:
        if log.must_repeat(error):
            self._start(log, done)
            return
        self._running = False
        failure = log.end_round(error)
        following, self._next = self._next, None
        if failure is None:
            done.resolve(None)
        else:
            done.fail(failure)
        if following is not None:
            self._start(log, following)


def sync_job(files: Files, open_files: list[File], paths: list[str]) -> Callable[[], None]:
    """A job for a worker: syncs open files, then files and directories by path if they still exist."""

    def sync() -> None:
        for file in open_files:
            file.sync()
        for path in paths:
            # The log may rename or remove it at any time.
            with suppress(FileNotFoundError):
                if files.is_directory(path):
                    files.sync_directory(path)
                elif files.exists(path):
                    files.open(path, create=False).sync()

    return sync
