"""Produce requests that have to wait: for followers (acks=all), for a flush, or for a worker that validates records.

A waiting request tracks its unsettled partitions. Each wake-up settles the partitions that are ready. The response is
sent when every partition is settled, or when the client's timeout has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.errors import InvalidRecords
from ottla.replica.defects import error_of
from ottla.replica.parked import Parked, Parking
from ottla.replica.partition import ACKS_ALL, Partition
from ottla.replica.transactional import UnconfirmedTransaction
from ottla.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.storage.log import AppendResult

__all__ = ["PartitionAnswer", "ProduceAnswer", "WaitingProduce", "fill_appended", "fill_error"]


# With these errors the records did not reach the log, or the log cannot be read.
_ERRORS_WITHOUT_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def fill_appended(answer: PartitionProduceResponse, result: AppendResult) -> None:
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.append_time_ms
    answer.log_start_offset = result.log_start_offset


def fill_error(answer: PartitionProduceResponse, error: KafkaError, partition: Partition | None = None) -> None:
    """Sets the error code, the records at fault (KIP-467), and the message if it differs from the code's message."""
    answer.error_code = error.code
    answer.base_offset = -1
    if partition is not None:
        partition.counters.failed_produces += 1
    if error.message != error.code.message:
        answer.error_message = error.message
    if (
        partition is not None
        and error.code not in _ERRORS_WITHOUT_START
        and not isinstance(error, UnconfirmedTransaction)
    ):
        # An idempotent producer uses it to detect that retention has deleted its earlier records (KIP-360).
        answer.log_start_offset = partition.log.log_start_offset
    if isinstance(error, InvalidRecords) and error.record_errors:
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
            for record in error.record_errors
        ]


# The response of a shortcut is already encoded.
ProduceAnswer = ProduceResponse | PackedResponse

# A partition of the response: what is filled in, or its position where the response is made of messages only if needed.
PartitionAnswer = PartitionProduceResponse | int


class WaitingProduce(Parked[ProduceAnswer]):
    """A produce request with partitions that are not settled yet."""

    __slots__ = ("_committing", "_on_lead_lost", "_required_acks", "_response", "_waits", "has_errors")

    def __init__(
        self,
        parking: Parking,
        response: ProduceResponse | None,
        *,
        required_acks: int,
        on_lead_lost: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(parking)
        # None in a subclass that overrides `response_message`.
        self._response = response
        # Called before a response with errors leaves: adds the current leaders.
        self._on_lead_lost = on_lead_lost
        self.has_errors = False
        self._required_acks = required_acks
        # Partitions that wait for a worker or a flush.
        self._waits: set[_Wait] = set()
        # Partitions that wait for followers, with the high watermark they need.
        self._committing: list[tuple[PartitionAnswer, Partition, int]] = []

    def response_message(self) -> ProduceResponse:
        assert self._response is not None
        return self._response

    def refuse(self, answer: PartitionAnswer, error: KafkaError) -> None:
        """Answers with an error although the records are in the leader's log."""
        assert isinstance(answer, PartitionProduceResponse)
        fill_error(answer, error)

    def wait_for_append(
        self, answer: PartitionProduceResponse, partition: Partition, pending: Deferred[AppendResult]
    ) -> None:
        wait = _Wait(self, answer, partition)
        self._waits.add(wait)
        pending.when_done(wait.on_appended)

    def wait_for_safety(self, answer: PartitionAnswer, partition: Partition, result: AppendResult) -> None:
        """The records are in the log. Waits for a flush if `flush.messages` demands it, and for followers."""
        if result.flushed is not None:
            assert isinstance(answer, PartitionProduceResponse)
            wait = _Wait(self, answer, partition)
            self._waits.add(wait)
            result.flushed.when_done(wait.on_flushed)
        if self._required_acks == ACKS_ALL and partition.high_watermark <= result.last_offset:
            self._committing.append((answer, partition, result.last_offset + 1))
            partition.parked_produces.add(self)
            if partition.leader_state is None:
                # The log directory failed under another batch of this request, and no event will follow.
                self.parking.wake(self)

    def start(self, timeout_ms: int) -> ProduceAnswer | Deferred[ProduceAnswer]:
        if not self._waits and not self._committing:
            return self.response_message()
        return self.park(max(0, timeout_ms))

    def retry(self) -> None:
        undecided: list[tuple[PartitionAnswer, Partition, int]] = []
        for waiting in self._committing:
            answer, partition, required_offset = waiting
            error = partition.commit_error(required_offset)
            if error is None:
                undecided.append(waiting)
            else:
                partition.parked_produces.discard(self)
                if error is not ErrorCode.NONE:
                    self.refuse(answer, KafkaError(error))
                    partition.counters.failed_produces += 1
                    self.has_errors = True
        for _, partition, _ in undecided:
            # A request may wait twice for one partition.
            partition.parked_produces.add(self)
        self._committing = undecided
        if not undecided and not self._waits:
            self.finish()

    def on_timeout(self) -> None:
        error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        self.has_errors = True
        for answer, partition, _ in self._committing:
            self.refuse(answer, error)
            partition.counters.failed_produces += 1
        for wait in self._waits:
            fill_error(wait.answer, error)
            wait.partition.counters.failed_produces += 1
        self._waits.clear()
        self.finish()

    def finish(self) -> None:
        if self.has_errors and self._on_lead_lost is not None:
            self._on_lead_lost()
        self.unpark(self.response_message())

    def leave(self) -> None:
        for _, partition, _ in self._committing:
            partition.parked_produces.discard(self)

    def on_appended(self, wait: _Wait, appended: Deferred[AppendResult]) -> None:
        if not self._end_wait(wait, appended.error):
            return
        result = appended.result()
        fill_appended(wait.answer, result)
        self.wait_for_safety(wait.answer, wait.partition, result)

    def on_flushed(self, wait: _Wait, flushed: Deferred[None]) -> None:
        self._end_wait(wait, flushed.error)

    def _end_wait(self, wait: _Wait, error: BaseException | None) -> bool:
        """Whether the response still waits for this partition, and there was no error."""
        if wait not in self._waits:
            # The request has timed out, and the response has left.
            return False
        self._waits.remove(wait)
        if error is not None:
            fill_error(wait.answer, error_of(error, "an append", wait.partition), wait.partition)
            self.has_errors = True
        self.parking.wake(self)
        return error is None


class _Wait:
    """The wait of one partition. Its methods are the callbacks, which saves closures."""

    __slots__ = ("answer", "partition", "produce")

    def __init__(self, produce: WaitingProduce, answer: PartitionProduceResponse, partition: Partition) -> None:
        self.produce = produce
        self.answer = answer
        self.partition = partition

    def on_appended(self, appended: Deferred[AppendResult]) -> None:
        self.produce.on_appended(self, appended)

    def on_flushed(self, flushed: Deferred[None]) -> None:
        self.produce.on_flushed(self, flushed)
