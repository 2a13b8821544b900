"""The part of a produce request that has to wait: for followers (acks=all), or for a worker that opens its records.

A request that waits for nothing never comes here. One that does collects what its partitions still owe; each wake-up
settles what can be settled, and when nothing is left, or the client's timeout is over, the whole answer goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.errors import InvalidRecords
from ottla.replica.parked import Parked, Parking
from ottla.replica.partition import ACKS_ALL, Partition
from ottla.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse

if TYPE_CHECKING:
    from ottla.storage.log import AppendResult

__all__ = ["WaitingProduce", "fill_appended", "fill_error"]


def fill_appended(answer: PartitionProduceResponse, result: AppendResult) -> None:
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.append_time_ms
    answer.log_start_offset = result.log_start_offset


def fill_error(answer: PartitionProduceResponse, error: KafkaError) -> None:
    """The code, the sentence, and the records at fault (KIP-467)."""
    answer.error_code = error.code
    answer.base_offset = -1
    answer.error_message = error.message
    if isinstance(error, InvalidRecords) and error.record_errors:
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
            for record in error.record_errors
        ]


class WaitingProduce(Parked[ProduceResponse]):
    """A produce request of which some partitions are not decided yet."""

    __slots__ = ("_appending", "_committing", "_required_acks", "response")

    def __init__(self, parking: Parking, response: ProduceResponse, *, required_acks: int) -> None:
        super().__init__(parking)
        self.response = response
        self._required_acks = required_acks
        # Partitions whose records are on a worker, and partitions whose followers have not fetched them yet.
        self._appending: set[_AppendWait] = set()
        self._committing: list[tuple[PartitionProduceResponse, Partition, int]] = []

    def wait_for_append(
        self, answer: PartitionProduceResponse, partition: Partition, pending: Deferred[AppendResult]
    ) -> None:
        wait = _AppendWait(self, answer, partition)
        self._appending.add(wait)
        pending.when_done(wait)

    def wait_for_commit(self, answer: PartitionProduceResponse, partition: Partition, last_offset: int) -> None:
        self._committing.append((answer, partition, last_offset + 1))
        partition.parked_produces[self] = None

    def start(self, timeout_ms: int) -> ProduceResponse | Deferred[ProduceResponse]:
        if not self._appending and not self._committing:
            return self.response
        return self.park(max(0, timeout_ms))

    def retry(self) -> None:
        undecided: list[tuple[PartitionProduceResponse, Partition, int]] = []
        for waiting in self._committing:
            answer, partition, required_offset = waiting
            error = partition.commit_error(required_offset)
            if error is None:
                undecided.append(waiting)
            elif error is not ErrorCode.NONE:
                fill_error(answer, KafkaError(error))
        self._committing = undecided
        if not undecided and not self._appending and self.is_parked:
            self.unpark(self.response)

    def on_timeout(self) -> None:
        error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        for answer, _, _ in self._committing:
            fill_error(answer, error)
        for wait in self._appending:
            fill_error(wait.answer, error)
        self._appending.clear()
        self.unpark(self.response)

    def leave(self) -> None:
        for _, partition, _ in self._committing:
            partition.parked_produces.pop(self, None)

    def on_appended(self, wait: _AppendWait, appended: Deferred[AppendResult]) -> None:
        if wait not in self._appending:
            # Timed out meanwhile: the answer has left.
            return
        self._appending.remove(wait)
        answer, partition = wait.answer, wait.partition
        if isinstance(appended.error, KafkaError):
            fill_error(answer, appended.error)
        elif appended.error is not None:
            if self.is_parked:
                self.fail(appended.error)
            return
        else:
            result = appended.result()
            fill_appended(answer, result)
            if self._required_acks == ACKS_ALL and partition.high_watermark <= result.last_offset:
                self.wait_for_commit(answer, partition, result.last_offset)
        if self.is_parked:
            self.parking.wake(self)


class _AppendWait:
    """The callback of one partition's worker; an object, so that it costs no closure."""

    __slots__ = ("_waiting", "answer", "partition")

    def __init__(self, waiting: WaitingProduce, answer: PartitionProduceResponse, partition: Partition) -> None:
        self._waiting = waiting
        self.answer = answer
        self.partition = partition

    def __call__(self, appended: Deferred[AppendResult]) -> None:
        self._waiting.on_appended(self, appended)
