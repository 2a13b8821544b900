"""The scrub: reads and checks the closed segments of all logs in the background (`ottla.log.scrub.*`).

The loop chooses the segments, a worker reads them in small steps, and the rate limits the steps. A round checks every
closed segment once. The next round begins `ottla.log.scrub.interval.ms` after the previous one began, or when that one
has ended. Damage is noted like that of a read (`LogFailures.note_damaged`), and repaired from other replicas.

Imported when the rate is above 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.model.ports import Lane
from ottla.storage.cleaner.throttle import Throttle
from ottla.storage.segment_check import SegmentCheck

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Timer, World
    from ottla.storage.log import PartitionLog
    from ottla.storage.segment import Segment

__all__ = ["Scrubber"]

logger = logging.getLogger(__name__)

STEP_BYTES = 256 * 1024
"""Python runs one thread at a time, so a step takes well below a millisecond."""


class Scrubber:
    """Runs from `configure` with a rate above 0 to `stop`."""

    def __init__(self, world: World, logs: Callable[[], Iterable[PartitionLog]]) -> None:
        self._world = world
        self._logs = logs
        self._throttle = Throttle(bytes_per_second=1.0)
        self._interval_seconds = 0.0
        self._round: Iterator[tuple[PartitionLog, Segment]] = iter(())
        self._round_began = 0.0
        self._timer: Timer | None = None
        self._is_running = False
        # A worker has a step.
        self._is_busy = False
        self.bytes_read = 0
        self.rounds = 0

    def configure(self, *, bytes_per_second: int, interval_ms: int) -> None:
        if bytes_per_second <= 0:
            self.stop()
            return
        self._throttle.bytes_per_second = bytes_per_second
        self._interval_seconds = interval_ms / 1000
        if not self._is_running:
            self._is_running = True
            self._begin_round()

    def stop(self) -> None:
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- rounds

    def _begin_round(self) -> None:
        self._timer = None
        self._round = self._closed_segments()
        self._round_began = self._world.clock.monotonic()
        if not self._is_busy:
            self._check_next()

    def _closed_segments(self) -> Iterator[tuple[PartitionLog, Segment]]:
        for log in self._logs():
            for segment in [segment for segment in log.segments if segment is not log.segments.active]:
                if not log.is_offline and _is_current(log, segment):
                    yield log, segment

    def _check_next(self) -> None:
        for log, segment in self._round:
            if segment.base_offset in log.files.failures.damaged_segments:
                continue
            following = log.segments.after(segment)
            assert following is not None, "the segment is closed"
            check = SegmentCheck(
                self._world.files,
                segment.path,
                segment.base_offset,
                size=segment.size,
                end_offset=following.base_offset,
                may_have_gaps=log.may_have_gaps,
            )
            self._submit(log, segment, check)
            return
        self.rounds += 1
        pause = self._round_began + self._interval_seconds - self._world.clock.monotonic()
        self._timer = self._world.scheduler.call_later(max(pause, 1.0), self._begin_round)

    # ---- steps

    def _submit(self, log: PartitionLog, segment: Segment, check: SegmentCheck) -> None:
        self._timer = None
        self._is_busy = True
        step = self._world.workers.lane(Lane.COMPACTION).submit(check.step, STEP_BYTES)
        step.when_done(lambda outcome: self._on_step(log, segment, check, outcome))

    def _on_step(self, log: PartitionLog, segment: Segment, check: SegmentCheck, outcome: Deferred[int]) -> None:
        self._is_busy = False
        if not self._is_running:
            return
        if outcome.error is not None and not isinstance(outcome.error, OSError):
            raise outcome.error
        is_current = not log.is_offline and _is_current(log, segment)
        read = outcome.result() if outcome.error is None and is_current else 0
        self.bytes_read += read
        if read == 0:
            if is_current:
                _report(log, segment, check, outcome.error)
            self._world.scheduler.call_soon(self._check_next_if_running)
            return
        delay = self._throttle.delay_seconds(read, now=self._world.clock.monotonic())
        self._timer = self._world.scheduler.call_later(delay, self._submit, log, segment, check)

    def _check_next_if_running(self) -> None:
        if self._is_running and not self._is_busy:
            self._check_next()


def _is_current(log: PartitionLog, segment: Segment) -> bool:
    """True if the segment is still a closed segment of the log: not deleted, compacted, moved or truncated."""
    number = log.segments.number_of(segment.base_offset)
    return log.segments[number] is segment and segment is not log.segments.active


def _report(log: PartitionLog, segment: Segment, check: SegmentCheck, error: BaseException | None) -> None:
    if error is not None:
        log.files.failures.note_damaged(segment.base_offset, f"it cannot be read: {error}")
    elif check.damages:
        log.files.failures.note_damaged(segment.base_offset, f"{segment.path}: {check.damages[0].reason}")
    elif check.index_damage is not None:
        # Reads compare an entry with its batch, and rebuild the indexes if they differ.
        logger.warning("%s: %s; a read rebuilds it", segment.path, check.index_damage)
