"""The audit trail of a node: a bounded queue of events, and the places where they are written.

An event is queued on the loop's thread, which costs some microseconds. A worker encodes the queue's events and writes
the files; the batch for the topic is built there, too. One batch is under way at a time. A full queue drops new events,
and a batch that a place refuses again and again is dropped; both are counted.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.audit.events import STREAMS, Event, as_line, login_event
from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    from ottla.model.ports import World

__all__ = ["AuditTrail", "Line", "Place"]

logger = logging.getLogger("ottla.broker.audit")

# About 10 MB at the most; seconds of a node that refuses everything.
QUEUE_EVENTS_MAX = 20_000
BATCH_EVENTS_MAX = 1_000
FLUSH_SECONDS = 0.1
RETRY_SECONDS = 1.0
ATTEMPTS_MAX = 5


class Line(NamedTuple):
    stream: str
    time_ms: int
    text: bytes


class Place(Protocol):
    """A place where events are written."""

    def prepare(self, lines: list[Line]) -> None:
        """Runs on a worker thread, before `write`. May raise OSError."""

    def write(self, lines: list[Line]) -> Deferred[None]:
        """Runs on the loop's thread; fails if nothing was written."""

    def close(self) -> None: ...


class AuditTrail:
    """`places` may be added until the first event arrives."""

    def __init__(self, world: World, node_id: int, *, logs_accepted_logins: bool, logs_logins: bool) -> None:
        self._world = world
        self._node_id = node_id
        self.places: list[Place] = []
        self._queue: deque[tuple[int, Event]] = deque()
        # True from the first event in the queue until the queue is empty.
        self._is_busy = False
        # The number of jobs that workers have for the batch. The files belong to a worker as long as it has one.
        self._jobs = 0
        self._is_closed = False
        self._logs_logins = logs_logins
        self._logs_accepted_logins = logs_accepted_logins
        # The number of written events by stream.
        self.written = dict.fromkeys(STREAMS, 0)
        self.dropped = dict.fromkeys(STREAMS, 0)

    def note(self, event: Event) -> None:
        if len(self._queue) >= QUEUE_EVENTS_MAX or self._is_closed:
            self.dropped[event["stream"]] += 1
            return
        self._queue.append((self._world.clock.now_ms(), event))
        if not self._is_busy:
            self._is_busy = True
            self._world.scheduler.call_later(FLUSH_SECONDS, self._begin_batch)

    def note_login(
        self,
        *,
        address: str,
        listener: str,
        mechanism: str,
        principal: str | None,
        reason: str | None = None,
        is_again: bool = False,
    ) -> None:
        """A client has logged in, or was refused for that reason."""
        if self._logs_logins and (reason is not None or self._logs_accepted_logins):
            self.note(
                login_event(
                    address=address,
                    listener=listener,
                    mechanism=mechanism,
                    principal=principal,
                    reason=reason,
                    is_again=is_again,
                )
            )

    def close(self) -> None:
        """Writes the queued events to the files. A stopping node can no longer write to the topic."""
        self._is_closed = True
        self._write_rest_when_idle()

    def _write_rest_when_idle(self) -> None:
        """Writes the rest when no worker has the files. A batch that waits for the topic does not delay it."""
        if self._jobs:
            return
        while events := self._take():
            lines = _encode(events, self._node_id)
            for place in self.places:
                try:
                    place.prepare(lines)
                except OSError as error:
                    logger.error("%d audit events of the stopping node were not written: %s", len(lines), error)
        for place in self.places:
            place.close()

    # -- batches ---------------------------------------------------------------------------------------------------

    def _take(self) -> list[tuple[int, Event]]:
        queue = self._queue
        return [queue.popleft() for _ in range(min(len(queue), BATCH_EVENTS_MAX))]

    def _begin_batch(self) -> None:
        if self._is_closed:
            return
        events = self._take()
        if not events:
            self._is_busy = False
            return
        self._jobs = 1
        encoded = self._world.workers.submit(_encode, events, self._node_id)

        def on_encoded(done: Deferred[list[Line]]) -> None:
            self._jobs = 0
            if isinstance(done.error, OSError):
                # The workers have no room for a task. The events wait at the front of the queue.
                self._queue.extendleft(reversed(events))
                self._world.scheduler.call_later(RETRY_SECONDS, self._begin_batch)
            else:
                self._write(done.result(), self.places, 1)

        encoded.when_done(on_encoded)

    def _write(self, lines: list[Line], places: list[Place], attempt: int) -> None:
        """Writes to all places at once; retries the places that have failed."""
        failed: list[Place] = []
        waits_for = len(places)
        errors: list[BaseException] = []

        def on_written(place: Place, done: Deferred[None]) -> None:
            nonlocal waits_for
            waits_for -= 1
            if done.error is not None:
                failed.append(place)
                errors.append(done.error)
            if waits_for == 0:
                self._settle(lines, failed, errors, attempt)

        def on_prepared(_: Deferred[None]) -> None:
            self._jobs -= 1
            if self._is_closed:
                self._write_rest_when_idle()

        if not places:
            self._settle(lines, [], [], attempt)
        self._jobs += len(places)
        for place in places:
            prepared = self._world.workers.submit(place.prepare, lines)
            # The batch is written before `on_prepared` may prepare the rest, which takes its place.
            written = prepared.and_then(lambda _, place=place: place.write(lines))  # type: ignore[misc]
            prepared.when_done(on_prepared)
            written.when_done(lambda done, place=place: on_written(place, done))  # type: ignore[misc]

    def _settle(self, lines: list[Line], failed: list[Place], errors: list[BaseException], attempt: int) -> None:
        if failed and attempt < ATTEMPTS_MAX and not self._is_closed:
            self._world.scheduler.call_later(RETRY_SECONDS, lambda: self._retry(lines, failed, errors, attempt))
            return
        if failed:
            logger.error(
                "%d audit events were dropped after %d failed attempts to write them: %s",
                len(lines),
                attempt,
                errors[0],
            )
        self._count(self.dropped if failed else self.written, lines)
        if self._is_closed:
            self._write_rest_when_idle()
        else:
            self._world.scheduler.call_later(FLUSH_SECONDS, self._begin_batch)

    def _retry(self, lines: list[Line], failed: list[Place], errors: list[BaseException], attempt: int) -> None:
        if self._is_closed:
            # The files are closed, so the batch is dropped.
            self._settle(lines, failed, errors, attempt)
        else:
            self._write(lines, failed, attempt + 1)

    def _count(self, counts: dict[str, int], lines: list[Line]) -> None:
        for line in lines:
            counts[line.stream] += 1


def _encode(events: list[tuple[int, Event]], node_id: int) -> list[Line]:
    return [Line(event["stream"], ms, as_line(event, time_ms=ms, node_id=node_id)) for ms, event in events]
