"""Makes a log durable, one round of fsyncs at a time.

All flushes that are requested during a round share the next round: a thousand appends that have to be durable cost two
rounds, not a thousand.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.model.deferred import Deferred
from ottla.model.ports import File, Files, Workers

__all__ = ["Flusher", "sync_job"]


class Flusher:
    """`collect` returns the job of a round. `on_done` gets its error or None, and returns the error for the callers."""

    __slots__ = ("_collect", "_next", "_on_done", "_running", "_workers")

    def __init__(
        self,
        workers: Workers,
        *,
        collect: Callable[[], Callable[[], None]],
        on_done: Callable[[BaseException | None], BaseException | None],
    ) -> None:
        self._workers = workers
        self._collect = collect
        self._on_done = on_done
        self._running = False
        self._next: Deferred[None] | None = None

    def flush(self) -> Deferred[None]:
        if self._running:
            if self._next is None:
                self._next = Deferred()
            return self._next
        done: Deferred[None] = Deferred()
        self._start(done)
        return done

    def _start(self, done: Deferred[None]) -> None:
        self._running = True
        try:
            job = self._collect()
        except OSError as error:
            self._finish(done, error)
            return
        self._workers.submit(job).when_done(lambda outcome: self._finish(done, outcome.error))

    def _finish(self, done: Deferred[None], error: BaseException | None) -> None:
        self._running = False
        failure = self._on_done(error)
        following, self._next = self._next, None
        if failure is None:
            done.resolve(None)
        else:
            done.fail(failure)
        if following is not None:
            self._start(following)


def sync_job(files: Files, open_files: list[File], paths: list[str]) -> Callable[[], None]:
    """A job for a worker: syncs open files, then files and directories by path if they still exist."""

    def sync() -> None:
        for file in open_files:
            file.sync()
        for path in paths:
            if files.is_directory(path):
                files.sync_directory(path)
            elif files.exists(path):
                files.open(path, create=False).sync()

    return sync
