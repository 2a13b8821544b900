"""The Workers port: a few threads for tasks that would block the loop.

Each lane has its own queue and its own threads: compaction, or clients' records that have to be decoded, never delay a
write of the metadata log. A thread starts when work arrives and no thread of its lane is idle, up to the lane's number,
and stays. Results go into one queue that the loop empties: results that arrive while a wake-up is pending share it, so
that a burst of fsyncs costs one wake-up.
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
from ottla.model.ports import Lane

__all__ = ["ThreadWorkers", "TooManyTasks"]

logger = logging.getLogger("ottla.host.workers")

T = TypeVar("T")

# More waiting tasks than this are a leak or an overload: refuse instead of growing without bound. There may be one task
# per log of a node when old segments are removed, and a refusal may stop the node.
TASKS_WAITING_MAX = 1_000_000

# The threads of the METADATA lane: one for the log, which must not wait, and one for a snapshot.
METADATA_THREADS = 2

_Task = tuple[Callable[..., Any], tuple[Any, ...], Deferred[Any]]


class TooManyTasks(OSError):
    """The workers' queue is full, or they have no thread: a temporary shortage, not an error of a disk."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOMEM, message)


def threads_of(lane: Lane, threads_max: int) -> int:
    """The largest number of threads of a lane, where `num.io.threads` is `threads_max`."""
    if lane is Lane.VALIDATION:
        # This lane computes in Python, and more threads would take the interpreter from the loop.
        return max(1, threads_max // 4)
    return METADATA_THREADS if lane is Lane.METADATA else threads_max


class ThreadWorkers:
    def __init__(self, loop: EventLoop, *, threads_max: int) -> None:
        assert threads_max > 0
        self._loop = loop
        self._finished: deque[tuple[_LaneThreads, Deferred[Any], Any, BaseException | None]] = deque()
        self._wake_up_sent = False
        self.is_closed = False
        self._lanes = {lane: _LaneThreads(self, lane) for lane in Lane}
        self._threads_max = 0
        self.threads_max = threads_max
        self.submit = self._lanes[Lane.GENERAL].submit

    @property
    def threads_max(self) -> int:
        """`num.io.threads`. May change: more threads start when there is work; running threads stay."""
        return self._threads_max

    @threads_max.setter
    def threads_max(self, threads_max: int) -> None:
        self._threads_max = threads_max
        for lane, threads in self._lanes.items():
            threads.threads_max = threads_of(lane, threads_max)

    @property
    def outstanding(self) -> int:
        """The number of submitted tasks whose results are not delivered yet."""
        return sum(lane.outstanding for lane in self._lanes.values())

    @property
    def threads(self) -> int:
        return sum(len(lane.threads) for lane in self._lanes.values())

    def lane(self, lane: Lane) -> _LaneThreads:
        return self._lanes[lane]

    def close(self) -> None:
        """Completes all submitted tasks, delivers their results, and ends the threads. Blocks; called at the end."""
        self.is_closed = True
        for lane in self._lanes.values():
            lane.end()
        for lane in self._lanes.values():
            for thread in lane.threads:
                thread.join()
        self._deliver()

    def finish(self, lane: _LaneThreads, deferred: Deferred[Any], value: Any, error: BaseException | None) -> None:
        """Called on the threads: hands a result to the loop."""
        self._finished.append((lane, deferred, value, error))
        # This appends before it reads the flag, `_deliver` clears the flag before it reads the queue: no result is
        # missed.
        if not self._wake_up_sent and not self.is_closed:
            self._wake_up_sent = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._wake_up_sent = False
        finished = self._finished
        while finished:
            lane, deferred, value, error = finished.popleft()
            lane.outstanding -= 1
            try:
                if error is None:
                    deferred.resolve(value)
                else:
                    deferred.fail(error)
            except Exception:
                # An exception in a callback must not lose the results after it.
                logger.exception("the callback of a background task failed")


class _LaneThreads:
    """The queue and the threads of one lane."""

    __slots__ = ("_name", "_tasks", "_workers", "outstanding", "threads", "threads_max")

    def __init__(self, workers: ThreadWorkers, lane: Lane) -> None:
        self._workers = workers
        self._name = lane.value
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.threads_max = 1
        self.outstanding = 0

    def submit(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        assert not self._workers.is_closed, "work submitted after the workers were closed"
        if self.outstanding >= TASKS_WAITING_MAX:
            return Deferred.failed(TooManyTasks(f"{self.outstanding} background tasks are waiting already"))
        if self.outstanding >= len(self.threads) < self.threads_max:
            try:
                self._start_thread()
            except RuntimeError as error:
                # The system has no room for a thread now. The threads that exist take the task.
                if not self.threads:
                    return Deferred.failed(TooManyTasks(f"no thread can be started: {error}"))
        deferred: Deferred[T] = Deferred()
        self.outstanding += 1
        self._tasks.put((function, arguments, deferred))
        return deferred

    def end(self) -> None:
        """The threads end when all submitted tasks are completed."""
        for _ in self.threads:
            self._tasks.put(None)

    def _start_thread(self) -> None:
        """Raises RuntimeError if the system refuses."""
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self.threads)}", daemon=True)
        thread.start()
        self.threads.append(thread)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, arguments, deferred = task
            value: Any = None
            error: BaseException | None = None
            try:
                value = function(*arguments)
            except BaseException as caught:  # noqa: BLE001 - any exception is passed to the waiter for the result
                _let_go_of_frames(caught)
                error = caught
            self._workers.finish(self, deferred, value, error)
            # Dropped now, so that an idle thread does not keep the buffers of the last task alive.
            del task, function, arguments, deferred, value, error


def _let_go_of_frames(error: BaseException) -> None:
    """Clears the local variables in the frames of the tracebacks; file names and lines stay.

    Frames hold the buffers of the task and often refer to the error itself: the buffers would stay in memory as long as
    the error does, and until the next garbage collection.
    """
    link: BaseException | None = error
    while link is not None:
        clear_frames(link.__traceback__)
        link = link.__context__
