"""Validation of batches whose records have to be decoded: a little on the loop's thread, everything else on workers.

Clients decide how many records have to be decoded, so all of it is bounded. The loop's thread decodes small batches
only, and a limited amount in each turn. Workers decode in steps of a few milliseconds. The clients take turns, and so
do the batches of one client: a batch with ten records never waits for a batch with a million to end, and a client with
one batch gets as much of the workers as a client with a thousand. The bytes of all batches have bounds, before and
after decompression; small batches have room of their own.

A batch is dropped when it was not validated within the timeout of its request, because its producer already has the
error, and when its client has disconnected. With acks=0 a client may disconnect after its last request: such batches
are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Lane, World
from ottla.records.validate import AppendOrigin
from ottla.records.validate_slow import DecodingWork, decoding_work, validate_in_steps, validate_slowly
from ottla.replica.schema_checks import SchemaChecks

if TYPE_CHECKING:
    from ottla.records.validate import ProduceSettings, ValidatedRecords
    from ottla.records.validate_slow import Steps
    from ottla.replica.partition import Partition

__all__ = ["NO_CLIENT", "VALIDATION_MS_MAX", "ProducingClient", "Validations"]

T = TypeVar("T")

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

# The bytes of all batches that wait for their validation or are being validated, as they arrived.
QUEUED_BYTES_MAX = 256 * 1024 * 1024

# The steps that are submitted to the workers at the same time: enough to keep the usual two threads of the lane busy.
# The others wait here, where the clients take turns. A client with one batch has one step at a time.
STEPS_SUBMITTED_MAX = 2

VALIDATION_MS_MAX = 30_000
"""The longest time from arrival to the end of a validation, where the timeout of the request is longer."""


class ProducingClient(Protocol):
    """The connection that a batch came on: `ottla.broker.context.ConnectionContext`."""

    # True once the connection is closed.
    is_gone: bool


class _NoClient:
    is_gone = False


NO_CLIENT: Final[ProducingClient] = _NoClient()


class Validations:
    """All validations of a broker that decode records."""

    __slots__ = (
        "_at_work",
        "_clock",
        "_is_refill_planned",
        "_is_stopped",
        "_large",
        "_queued_bytes",
        "_ready",
        "_scheduler",
        "_schemas",
        "_small",
        "_work_left",
        "_workers",
    )

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._scheduler = world.scheduler
        self._workers = world.workers.lane(Lane.VALIDATION)
        self._schemas = SchemaChecks(world, None)
        self._work_left = LOOP_WORK_MAX
        self._is_refill_planned = False
        self._is_stopped = False
        self._small = _Room(SMALL_BATCHES_BYTES_MAX)
        self._large = _Room(LARGE_BATCHES_BYTES_MAX)
        self._queued_bytes = 0
        # Validations in progress whose next step is not submitted, and the clients of the submitted steps.
        self._ready = _Turns()
        self._at_work: list[ProducingClient] = []

    def use_registry(self, schemas: SchemaChecks) -> None:
        """For topics that check the schemas of records."""
        self._schemas = schemas

    def check_schemas(
        self, partition: Partition, settings: ProduceSettings, records: ValidatedRecords
    ) -> Deferred[None] | None:
        """None if the records may be appended; later if the registry is asked first. Raises KafkaError."""
        if records.schema_tags is None or settings.schemas is None or _is_repeated(partition, records):
            return None
        return self._schemas.check(partition.topic, settings.schemas, records.schema_tags)

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

    def deadline(self, timeout_ms: int) -> float:
        """The time of the monotonic clock by which a batch that has just arrived must be validated."""
        return self._clock.monotonic() + max(0, min(timeout_ms, VALIDATION_MS_MAX)) / 1000

    def check(self, *, deadline: float, client: ProducingClient, required_acks: int) -> None:
        """Raises KafkaError if no client waits for the result of the batch any more."""
        if self._clock.monotonic() >= deadline:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The records were not validated within the request's timeout."
            )
        if client.is_gone and required_acks:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "The producer has disconnected.")

    def queue(self, size: int, result: Deferred[T]) -> None:
        """Counts the bytes of a batch until its result is known. Raises KafkaError if too many are queued."""
        if self._queued_bytes and self._queued_bytes + size > QUEUED_BYTES_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Too many batches are queued for validation on this broker.")
        self._queued_bytes += size
        result.when_done(lambda _: self._unqueue(size))

    def _unqueue(self, size: int) -> None:
        self._queued_bytes -= size

    def validate_on_workers(
        self,
        records: memoryview,
        *,
        settings: ProduceSettings,
        now_ms: int,
        api_version: int,
        deadline: float,
        client: ProducingClient = NO_CLIENT,
        required_acks: int = 1,
    ) -> Deferred[ValidatedRecords]:
        """Fails with REQUEST_TIMED_OUT after the deadline, and with NETWORK_EXCEPTION if the client has gone."""
        validation = _Validation(
            validate_in_steps(records, settings=settings, now_ms=now_ms, api_version=api_version),
            decoding_work(records, settings=settings, now_ms=now_ms),
            partial(self.check, deadline=deadline, client=client, required_acks=required_acks),
            client,
        )
        room = self._small if validation.decompressed_bytes <= SMALL_BATCH_BYTES_MAX else self._large
        validation.room = room
        room.waiting.add(validation)
        self._start(room)
        return validation.result

    def _spend(self, work: DecodingWork, size: int) -> bool:
        """Whether the loop's thread may do this work now. If so, the work is counted."""
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
        """Starts validations for which there is room, and drops those without a waiting client."""
        while (validation := room.take()) is not None:
            self._ready.add(validation)
        self._submit()

    def _submit(self) -> None:
        while self._ready and len(self._at_work) < STEPS_SUBMITTED_MAX and not self._is_stopped:
            validation = self._ready.take(self._at_work)
            self._at_work.append(validation.client)
            self._workers.submit(validation.step).when_done(partial(self._on_stepped, validation))

    def _on_stepped(self, validation: _Validation, outcome: Deferred[ValidatedRecords | None]) -> None:
        self._at_work.remove(validation.client)
        error = outcome.error
        validated = outcome.result() if error is None else None
        if error is None and validated is None:
            if not self._is_stopped:
                # The other clients, and the other batches of this client, have their turn first.
                self._ready.add(validation)
                self._submit()
                return
            error = _stopped()
        room = validation.room
        assert room is not None, "a validation in progress has room"
        room.used_bytes -= validation.decompressed_bytes
        if error is not None:
            validation.fail(error)
        else:
            assert validated is not None, "a validation ends with a result or an error"
            validation.result.resolve(validated)
        if self._is_stopped:
            self._fail_all()
        else:
            self._start(room)

    def _fail_all(self) -> None:
        """Fails all validations without a running step. No further steps are submitted."""
        for turns in (self._ready, self._small.waiting, self._large.waiting):
            while turns:
                turns.take().fail(_stopped())


def _is_repeated(partition: Partition, records: ValidatedRecords) -> bool:
    """True if an idempotent producer repeats a batch of the log, which gets the first answer again."""
    log = partition.log
    if records.headers[0].producer_id < 0:
        return False
    try:
        duplicate = log.producers.check(
            records.headers, records.positions, records.buffer, AppendOrigin.CLIENT, log.segments
        )
    except (KafkaError, OSError):
        # The append finds the same.
        return False
    return duplicate is not None


def _stopped() -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The broker is shutting down.")


class _Validation:
    """The validation of one batch."""

    __slots__ = ("_check", "client", "decompressed_bytes", "result", "room", "steps")

    def __init__(
        self,
        steps: Steps[ValidatedRecords],
        work: DecodingWork,
        check: Callable[[], None],
        client: ProducingClient,
    ) -> None:
        self.steps = steps
        self.decompressed_bytes = work.decompressed_bytes
        self.client = client
        self.room: _Room | None = None
        self.result: Deferred[ValidatedRecords] = Deferred()
        # Raises KafkaError if no client waits for the result any more.
        self._check = check

    def step(self) -> ValidatedRecords | None:
        """Runs on a worker. Returns the result after the last step."""
        self._check()
        try:
            next(self.steps)
        except StopIteration as done:
            validated: ValidatedRecords = done.value
            return validated
        return None

    def reason_to_drop(self) -> KafkaError | None:
        """The error if no client waits for the result any more."""
        try:
            self._check()
        except KafkaError as error:
            return error
        return None

    def fail(self, error: BaseException) -> None:
        # The records that are decompressed already, and the frame, are held by the generator.
        self.steps.close()
        self.result.fail(error)


class _Turns:
    """Validations of several clients, which take turns."""

    __slots__ = ("_by_client",)

    def __init__(self) -> None:
        # The first client has the next turn.
        self._by_client: dict[ProducingClient, deque[_Validation]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_client)

    def add(self, validation: _Validation) -> None:
        self._by_client.setdefault(validation.client, deque()).append(validation)

    @property
    def next(self) -> _Validation:
        return next(iter(self._by_client.values()))[0]

    def take(self, at_work: Collection[ProducingClient] = ()) -> _Validation:
        """The next validation, of a client that is not at work if there is one."""
        client = next((client for client in self._by_client if client not in at_work), None)
        if client is None:
            client = next(iter(self._by_client))
        validations = self._by_client.pop(client)
        validation = validations.popleft()
        if validations:
            self._by_client[client] = validations
        return validation


class _Room:
    """The decompressed bytes of the validations in progress, and the validations that wait for room."""

    __slots__ = ("_bytes_max", "used_bytes", "waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used_bytes = 0
        self.waiting = _Turns()

    def take(self) -> _Validation | None:
        """The next validation, if there is room for it."""
        while self.waiting:
            validation = self.waiting.next
            size = validation.decompressed_bytes
            error = validation.reason_to_drop()
            if error is None and self.used_bytes and self.used_bytes + size > self._bytes_max:
                return None
            self.waiting.take()
            if error is None:
                self.used_bytes += size
                return validation
            validation.fail(error)
        return None
