"""Validation of batches whose records have to be decoded: a little on the loop's thread, everything else on workers.

Clients decide how many records have to be decoded, so all of it is bounded. The loop's thread decodes small batches
only, and a limited amount in each turn. Workers decode in steps of a few milliseconds, and the batches take turns: a
batch with ten records never waits for a batch with a million to end. The decompressed bytes of all batches have a
bound, too; small batches have room of their own. A batch that is not validated within the timeout of its request is
dropped, because its producer already has the error.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Clock, Lane, World
from ottla.records.validate_slow import DecodingWork, decoding_work, validate_in_steps, validate_slowly

if TYPE_CHECKING:
    from ottla.records.validate import ProduceSettings, ValidatedRecords
    from ottla.records.validate_slow import Steps

__all__ = ["VALIDATION_MS_MAX", "Validations"]

# The work of one batch on the loop's thread. For a larger batch, the way to a worker and back pays off.
LOOP_BYTES_MAX = 32 * 1024
LOOP_RECORDS_MAX = 1_000
LOOP_DECOMPRESSED_BYTES_MAX = 1024 * 1024
LOOP_COMPRESSED_BYTES_MAX = 128 * 1024

# The work of one turn of the loop in microseconds. A record takes about one, a KiB to decompress takes one, and a KiB
# to compress takes up to sixteen (gzip).
LOOP_WORK_MAX = 10_000

# The decompressed bytes of all batches that are being validated: of small batches, and of the others. One batch is
# validated in any case.
SMALL_BATCH_BYTES_MAX = 1024 * 1024
SMALL_BATCHES_BYTES_MAX = 64 * 1024 * 1024
LARGE_BATCHES_BYTES_MAX = 256 * 1024 * 1024

VALIDATION_MS_MAX = 30_000
"""The longest time from arrival to the end of a validation, where the timeout of the request is longer."""


class Validations:
    """All validations of a broker that decode records."""

    __slots__ = (
        "_clock",
        "_is_refill_planned",
        "_is_stopped",
        "_large",
        "_scheduler",
        "_small",
        "_work_left",
        "_workers",
    )

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._scheduler = world.scheduler
        self._workers = world.workers.lane(Lane.VALIDATION)
        self._work_left = LOOP_WORK_MAX
        self._is_refill_planned = False
        self._is_stopped = False
        self._small = _Room(SMALL_BATCHES_BYTES_MAX)
        self._large = _Room(LARGE_BATCHES_BYTES_MAX)

    def stop(self) -> None:
        """The workers are about to end: validations fail at their next step."""
        self._is_stopped = True

    def validate_on_loop(
        self, records: memoryview, *, settings: ProduceSettings, now_ms: int, api_version: int
    ) -> ValidatedRecords | None:
        """Validates a batch that is refused by its header or takes little time. Returns None if it needs a worker."""
        work = decoding_work(records, settings=settings, now_ms=now_ms)
        if (work.records or work.decompressed_bytes) and not self._spend(work, len(records)):
            return None
        return validate_slowly(records, settings=settings, now_ms=now_ms, api_version=api_version)

    def validate_on_workers(
        self, records: memoryview, *, settings: ProduceSettings, now_ms: int, api_version: int, timeout_ms: int
    ) -> Deferred[ValidatedRecords]:
        """Fails with REQUEST_TIMED_OUT if the validation takes longer than the timeout."""
        validation = _Validation(
            validate_in_steps(records, settings=settings, now_ms=now_ms, api_version=api_version),
            decoding_work(records, settings=settings, now_ms=now_ms),
            self._clock,
            deadline=self._clock.monotonic() + max(0, min(timeout_ms, VALIDATION_MS_MAX)) / 1000,
        )
        room = self._small if validation.decompressed_bytes <= SMALL_BATCH_BYTES_MAX else self._large
        room.waiting.append(validation)
        self._start(room)
        return validation.result

    def _spend(self, work: DecodingWork, size: int) -> bool:
        """Whether the loop's thread may do this work now."""
        cost = work.records + (work.decompressed_bytes >> 10) + (work.compressed_bytes >> 6)
        if (
            size >= LOOP_BYTES_MAX
            or work.records > LOOP_RECORDS_MAX
            or work.decompressed_bytes > LOOP_DECOMPRESSED_BYTES_MAX
            or work.compressed_bytes > LOOP_COMPRESSED_BYTES_MAX
            or cost > self._work_left
        ):
            return False
        self._work_left -= cost
        if not self._is_refill_planned:
            self._is_refill_planned = True
            self._scheduler.call_soon(self._refill)
        return True

    def _refill(self) -> None:
        self._is_refill_planned = False
        self._work_left = LOOP_WORK_MAX

    def _start(self, room: _Room) -> None:
        while (validation := room.take()) is not None:
            self._submit(validation, room)

    def _submit(self, validation: _Validation, room: _Room) -> None:
        stepped = self._workers.submit(validation.step)
        stepped.when_done(lambda outcome: self._on_stepped(validation, room, outcome))

    def _on_stepped(self, validation: _Validation, room: _Room, outcome: Deferred[ValidatedRecords | None]) -> None:
        error = outcome.error
        validated = outcome.result() if error is None else None
        if error is None and validated is None:
            if not self._is_stopped:
                # At the end of the workers' queue: the other batches have their turn first.
                self._submit(validation, room)
                return
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The broker is shutting down.")
        room.used_bytes -= validation.decompressed_bytes
        if error is not None:
            # The records that are decompressed already, and the frame, are held by the generator.
            validation.steps.close()
            validation.result.fail(error)
        else:
            assert validated is not None, "a validation ends with a result or an error"
            validation.result.resolve(validated)
        if not self._is_stopped:
            self._start(room)


class _Validation:
    """The validation of one batch."""

    __slots__ = ("_clock", "_deadline", "decompressed_bytes", "result", "steps")

    def __init__(self, steps: Steps[ValidatedRecords], work: DecodingWork, clock: Clock, *, deadline: float) -> None:
        self.steps = steps
        self.decompressed_bytes = work.decompressed_bytes
        self.result: Deferred[ValidatedRecords] = Deferred()
        self._clock = clock
        self._deadline = deadline

    def step(self) -> ValidatedRecords | None:
        """Runs on a worker. Returns the result after the last step."""
        if self._clock.monotonic() >= self._deadline:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The records were not validated within the request's timeout."
            )
        try:
            next(self.steps)
        except StopIteration as done:
            validated: ValidatedRecords = done.value
            return validated
        return None


class _Room:
    """The decompressed bytes of the validations in progress, and the validations that wait for room."""

    __slots__ = ("_bytes_max", "used_bytes", "waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used_bytes = 0
        self.waiting: deque[_Validation] = deque()

    def take(self) -> _Validation | None:
        """The next validation, if there is room for it."""
        if not self.waiting:
            return None
        size = self.waiting[0].decompressed_bytes
        if self.used_bytes and self.used_bytes + size > self._bytes_max:
            return None
        self.used_bytes += size
        return self.waiting.popleft()
