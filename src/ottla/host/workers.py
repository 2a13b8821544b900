"""The Workers port: a few threads for tasks that would block the loop.

A thread starts when work arrives and no thread is idle, up to a fixed number, and stays. Results go into one queue that
the loop empties: results that arrive while a wake-up is pending share it, so that a burst of fsyncs costs one wake-up.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from traceback import clear_frames
from typing import Any, TypeVar

from ottla.host.loop import EventLoop
from ottla.model.deferred import Deferred

__all__ = ["ThreadWorkers", "TooManyTasks"]

logger = logging.getLogger("ottla.host.workers")

T = TypeVar("T")

# More waiting tasks than this are a leak or an overload: refuse instead of growing without bound. There may be one task
# per log of a node when old segments are removed, and a refusal may stop the node.
TASKS_WAITING_MAX = 1_000_000

_Task = tuple[Callable[..., Any], tuple[Any, ...], Deferred[Any]]


class TooManyTasks(OSError):
    """The workers' queue is full: a temporary shortage, not an error of a disk."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOMEM, message)


class ThreadWorkers:
    def __init__(self, loop: EventLoop, *, threads_max: int) -> None:
        assert threads_max > 0
        self._loop = loop
        # May change: more threads start when there is work; running threads stay.
        self.threads_max = threads_max
        self._threads: list[threading.Thread] = []
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._finished: deque[tuple[Deferred[Any], Any, BaseException | None]] = deque()
        self._outstanding = 0
        self._wake_up_sent = False
        self._closed = False

    @property
    def outstanding(self) -> int:
        """Submitted tasks whose results are not delivered yet."""
        return self._outstanding

    @property
    def threads(self) -> int:
        return len(self._threads)

    def submit(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        assert not self._closed, "work submitted after the workers were closed"
        if self._outstanding >= TASKS_WAITING_MAX:
            return Deferred.failed(TooManyTasks(f"{self._outstanding} background tasks are waiting already"))
        deferred: Deferred[T] = Deferred()
        self._outstanding += 1
        self._tasks.put((function, arguments, deferred))
        if self._outstanding > len(self._threads) < self.threads_max:
            self._start_thread()
        return deferred

    def close(self) -> None:
        """Completes all submitted tasks, delivers their results, and ends the threads. Blocks; called at the end."""
        self._closed = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._deliver()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"worker-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, arguments, deferred = task
            value: Any = None
            error: BaseException | None = None
            try:
                value = function(*arguments)
            except BaseException as caught:  # noqa: BLE001 - whatever it is belongs to whoever waits for the result
                _let_go_of_frames(caught)
                error = caught
            self._finished.append((deferred, value, error))
            # Dropped now, so that an idle thread does not keep the buffers of the last task alive.
            del task, function, arguments, deferred, value, error
            # This appends before it reads the flag, `_deliver` clears the flag before it reads the queue: no result is
            # missed.
            if not self._wake_up_sent and not self._closed:
                self._wake_up_sent = True
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._wake_up_sent = False
        finished = self._finished
        while finished:
            deferred, value, error = finished.popleft()
            self._outstanding -= 1
            try:
                if error is None:
                    deferred.resolve(value)
                else:
                    deferred.fail(error)
            except Exception:
                # An exception in a callback must not lose the results after it.
                logger.exception("the callback of a background task failed")


def _let_go_of_frames(error: BaseException) -> None:
    """Clears the local variables in the frames of the tracebacks; file names and lines stay.

    Frames hold the buffers of the task and often refer to the error itself: the buffers would stay in memory as long as
    the error does, and until the next garbage collection.
    """
    link: BaseException | None = error
    while link is not None:
        clear_frames(link.__traceback__)
        link = link.__context__
