"""A DeleteRecords request that waits until every live replica has deleted the records (KIP-107).

The leader moves its own log start offset at once. A follower gets the new start with a fetch response, and its next
fetch shows that it has moved its own. The request does not wait for followers on fenced brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.parked import Parked, Parking
from ottla.wire.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsResponse

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.replica.partition import Partition

__all__ = ["WaitingDelete"]


class WaitingDelete(Parked[DeleteRecordsResponse]):
    """Waits for the followers of its partitions."""

    __slots__ = ("_waiting", "response")

    def __init__(self, parking: Parking, response: DeleteRecordsResponse) -> None:
        super().__init__(parking)
        self.response = response
        self._waiting: list[tuple[DeleteRecordsPartitionResult, Partition, int]] = []

    def wait_for(self, answer: DeleteRecordsPartitionResult, partition: Partition, offset: int) -> None:
        self._waiting.append((answer, partition, offset))

    def start(self, timeout_ms: int) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
        self._settle()
        if not self._waiting:
            return self.response
        if timeout_ms <= 0 or self.parking.is_full:
            self._give_up()
            return self.response
        for _, partition, _ in self._waiting:
            partition.parked_deletes.add(self)
        return self.park(timeout_ms)

    def retry(self) -> None:
        self._settle()
        if not self._waiting:
            self.unpark(self.response)

    def on_timeout(self) -> None:
        self._settle()
        self._give_up()
        self.unpark(self.response)

    def leave(self) -> None:
        for _, partition, _ in self._waiting:
            partition.parked_deletes.discard(self)

    def _settle(self) -> None:
        undecided: list[tuple[DeleteRecordsPartitionResult, Partition, int]] = []
        for waiting in self._waiting:
            answer, partition, offset = waiting
            try:
                partition.check_leader()
            except KafkaError as error:
                answer.error_code, answer.low_watermark = error.code, -1
            else:
                answer.low_watermark = partition.low_watermark
                if answer.low_watermark < offset:
                    undecided.append(waiting)
                    continue
            partition.parked_deletes.discard(self)
        self._waiting = undecided

    def _give_up(self) -> None:
        for answer, _, _ in self._waiting:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
