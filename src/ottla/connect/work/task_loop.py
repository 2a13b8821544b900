"""The life of a task of any kind: batch after batch in a thread of its own, until the task is stopped.

A subclass implements `open`, `batch` and `close`. This module has the rest: trigger, pause, retries, reports and the
end. `batch` returns False if there is no data. The loop then waits for the next trigger, so an idle task costs one
query per trigger interval.

A failure ends the task, with three exceptions. A `RetriableError`, or brokers that are unavailable, are retried for the
life of the task, with growing pauses: the restart of a database needs no operator. A batch whose process was lost is
retried a few times: a process may be lost for any reason, but a batch that loses every process is the cause itself.
All other failures are retried for `errors.retry.timeout`. A task that cannot start, or has been failing for two
seconds, is FAILED with the cause until it works again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ottla.client.errors import ClusterUnreachable, ConnectionLost, TimedOut
from ottla.connect.api import ReadLimit, RetriableError
from ottla.connect.work.causes import cause_of, trace_of
from ottla.connect.work.engine import TaskEvents, TaskProgress, TaskSpec
from ottla.connect.work.jobs import LostAttemptError
from ottla.model.errors import KafkaError

__all__ = ["LOST_ATTEMPTS_MAX", "StoppedError", "TaskLoop", "TaskStart"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS_FIRST = 0.3
# A batch that has been failing for this long changes the task's state.
QUIET_MS = 2_000
# A batch may lose the process that writes it this many times.
LOST_ATTEMPTS_MAX = 3
# Errors that mean that the cluster is unavailable.
_UNAVAILABLE = (ClusterUnreachable, ConnectionLost, TimedOut)


class StoppedError(Exception):
    """The task is being stopped: the batch in progress is given up."""


@dataclass(frozen=True, slots=True)
class TaskStart:
    """The arguments of every task: its specification, the receiver of its events, the worker's event loop."""

    spec: TaskSpec
    events: TaskEvents
    loop: asyncio.AbstractEventLoop
    paused: bool = False


class TaskLoop(ABC):
    def __init__(self, start: TaskStart) -> None:
        self.spec = start.spec
        self.progress = TaskProgress()
        self._events = start.events
        self._loop = start.loop
        self._wake = threading.Condition()
        self._stopping = False
        self._paused = start.paused
        self._topics: set[str] = set()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"task-{self.spec.task.id}", daemon=True)

    # For subclasses to implement. Called by the task's thread.

    @abstractmethod
    def open(self) -> None:
        """Prepares the first batch."""

    @abstractmethod
    def batch(self, limit: ReadLimit) -> bool:
        """Runs one batch; returns False if there was no data."""

    @abstractmethod
    def close(self) -> None:
        """Called after the last batch, or after a failure."""

    def on_pause(self) -> None:  # noqa: B027 - most tasks keep everything open
        """Called at the beginning of a pause."""

    @abstractmethod
    def cancel(self) -> None:
        """Called from outside when a batch takes too long to stop."""

    # Called by the worker, on the event loop.

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        with self._wake:
            self._paused = True
            self._wake.notify_all()

    def resume(self) -> None:
        with self._wake:
            self._paused = False
            self._wake.notify_all()

    async def stop(self, timeout_ms: int) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._ended.wait()
        except TimeoutError:
            logger.warning("Task %s takes too long to stop; its batch is cancelled", self.spec.task.id)
            await asyncio.to_thread(self.cancel)
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._ended.wait()
            except TimeoutError:
                # The abandoned thread can write nothing more: the next run of the task fences it.
                logger.warning("Task %s did not stop in time; its thread is abandoned", self.spec.task.id)

    # For subclasses.

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def should_rest(self) -> bool:
        """True if the task is to be stopped or paused."""
        return self._stopping or self._paused

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the worker's event loop and waits for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def used_topic(self, topic: str) -> None:
        if topic not in self._topics:
            self._topics.add(topic)
            self._report(lambda: self._events.on_topic(topic))

    def setting(self, name: str, default: int) -> int:
        return int(self.spec.config.get(name) or default)

    # The thread.

    def _run(self) -> None:
        failure: str | None = None
        try:
            self._retrying(self.open, quiet_ms=0)
            self._work()
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - every failure becomes the trace of the task
            if not self._stopping:
                failure = trace_of(error)
                self.progress.on_error(cause_of(error))
        try:
            self.close()
        except Exception:
            logger.warning("Closing task %s failed", self.spec.task.id, exc_info=True)
        self._report(self._ended.set)
        if failure is not None:
            text = failure
            self._report(lambda: self._events.on_failed(text))

    def _work(self) -> None:
        trigger = self.setting("trigger.interval.ms", 1_000) / 1000
        limit = ReadLimit(
            records=self.setting("batch.max.records", ReadLimit().records),
            bytes=self.setting("batch.max.bytes", ReadLimit().bytes),
        )
        self._report(self._events.on_paused if self._paused else self._events.on_running)
        while True:
            self._wait_while_paused()
            began = time.monotonic()
            worked = self._retrying(lambda: self.batch(limit), quiet_ms=QUIET_MS)
            left = trigger - (time.monotonic() - began)
            # A batch is often followed by more data: the next batch starts as soon as the trigger allows.
            self._sleep(max(left, 0.0) if worked else max(left, trigger / 2))

    def _wait_while_paused(self) -> None:
        with self._wake:
            if self._stopping:
                raise StoppedError
            if not self._paused:
                return
        # `on_pause` may take long, so the lock is free: the worker's event loop needs it to resume or stop the task.
        self.on_pause()
        self._report(self._events.on_paused)
        with self._wake:
            while self._paused and not self._stopping:
                self._wake.wait()
            if self._stopping:
                raise StoppedError
        self._report(self._events.on_running)

    def _sleep(self, seconds: float, *, until_paused: bool = True) -> None:
        end = time.monotonic() + seconds
        with self._wake:
            while not self._stopping and (left := end - time.monotonic()) > 0:
                if until_paused and self._paused:
                    break
                self._wake.wait(left)
            if self._stopping:
                raise StoppedError

    def _retrying(self, work: Callable[[], T], *, quiet_ms: int) -> T:
        """Calls `work` until it succeeds, or fails for good. A failure changes the state only after a while."""
        timeout_ms = self.setting("errors.retry.timeout", 0)
        pause_max = self.setting("errors.retry.delay.max.ms", 60_000) / 1000
        began, pause, lost, is_reported = time.monotonic(), _RETRY_SECONDS_FIRST, 0, False
        while True:
            try:
                result = work()
            except StoppedError:
                raise
            except Exception as error:
                if self._stopping:
                    raise StoppedError from error
                spent_ms = (time.monotonic() - began) * 1000
                if getattr(error, "is_final", False):
                    raise
                is_temporary = _is_retriable(error)
                if isinstance(error, LostAttemptError):
                    lost += 1
                    is_temporary = lost < LOST_ATTEMPTS_MAX
                if not is_temporary and 0 <= timeout_ms <= spent_ms:
                    if lost >= LOST_ATTEMPTS_MAX:
                        raise LostAttemptError(f"The process that writes this batch was lost {lost} times.") from error
                    raise
                self.progress.retries += 1
                self.progress.on_error(cause_of(error))
                logger.warning("Task %s retries in %.1f s: %s", self.spec.task.id, pause, cause_of(error))
                if spent_ms >= quiet_ms:
                    is_reported = True
                    self._report(partial(self._events.on_retrying, trace_of(error)))
            else:
                if is_reported:
                    self._report(self._events.on_running)
                return result
            # A paused task retries as well, at the same intervals.
            self._sleep(pause, until_paused=False)
            pause = min(pause * 2, pause_max)

    def _report(self, event: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(event)


def _is_retriable(error: BaseException) -> bool:
    """True for temporary failures: those that a plug-in declares, and those of an unavailable or busy cluster."""
    if isinstance(error, KafkaError):
        return error.code.retriable
    if isinstance(error, (RetriableError, *_UNAVAILABLE)):
        return True
    # Exceptions of Spark's executors arrive as text.
    return any(f"{kind.__module__}.{kind.__name__}: " in str(error) for kind in (RetriableError, *_UNAVAILABLE))
