"""A task of a source that reads and writes by itself (`TaskWorker`), such as a copy of topics of another cluster."""

from __future__ import annotations

import time

from ottla.connect.api import ConnectError, ReadLimit, SourceConnector, TaskWorker
from ottla.connect.work.task_loop import TaskLoop

__all__ = ["OwnTask"]


# A worker that has failed counts as recovered when it has worked for this long.
_RECOVERED_SECONDS = 3.0


class OwnTask(TaskLoop):
    _worker: TaskWorker | None = None
    _has_failed = False

    def open(self) -> None:
        connector = self.spec.connector()
        assert isinstance(connector, SourceConnector)
        self._worker = connector.worker(self.spec.task, self.spec.transactional_id)
        if self._worker is None:
            raise ConnectError(f"{self.spec.connector.__name__} has no worker.")

    def batch(self, limit: ReadLimit) -> bool:
        """Runs the worker until the task is paused or stopped; after a failure, until the worker has recovered."""
        del limit
        assert self._worker is not None, "opened before"
        end = time.monotonic() + _RECOVERED_SECONDS if self._has_failed else float("inf")
        self._has_failed = True
        self._worker.run(lambda: self.should_rest() or time.monotonic() >= end)
        self._has_failed = False
        return True

    def close(self) -> None:
        self._worker = None

    def cancel(self) -> None:
        """Does nothing: the worker ends by itself when `should_rest` is True."""
