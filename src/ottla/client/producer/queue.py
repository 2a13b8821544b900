"""The batches of one partition, oldest first."""

from __future__ import annotations

from collections import deque

from ottla.client.errors import ClientError, ClusterUnreachable, ConnectionLost, TimedOut
from ottla.client.producer.batch import ProducerBatch
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["PartitionQueue"]


class PartitionQueue:
    """Unacknowledged batches of a partition: the open batch, closed batches, and the number of batches in flight."""

    __slots__ = ("closed", "filled_at", "in_flight", "known_producer_id", "open", "retrying", "sent_epoch", "sent_to")

    def __init__(self) -> None:
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.in_flight = 0
        # When the last batch began, by the clock of the loop.
        self.filled_at = 0.0
        # True while a batch waits for its retry: later batches must not be sent before it.
        self.retrying = False
        # The producer id of which the leader has acknowledged a batch.
        self.known_producer_id = -1
        # The epoch of the batch that was sent last.
        self.sent_epoch = -1
        # The broker to which that batch was sent.
        self.sent_to = -1

    @property
    def is_empty(self) -> bool:
        return self.open is None and not self.closed and not self.in_flight

    def must_wait(self, producer: tuple[int, int]) -> bool:
        """True if no batch may be sent before those in flight are answered.

        A leader accepts any sequence number as the first of an unknown producer. If the first batch were lost and the
        second accepted, the first would be out of order for ever. So the first batch is sent alone. A leader that has a
        batch of a new epoch refuses batches of older epochs, so these are answered first.
        """
        producer_id, epoch = producer
        is_new = self.known_producer_id != producer_id or self.sent_epoch != epoch
        return self.in_flight > 0 and (self.retrying or is_new)

    def is_elsewhere(self, node_id: int) -> bool:
        """True if batches are in flight to another broker: it must answer before this broker gets the next batch.

        The old leader may have written them. A new leader remembers the last five batches only: after more of them it
        would take a repeated batch for a gap, and the batch would be written twice.
        """
        return self.in_flight > 0 and self.sent_to != node_id

    def put_back(self, batch: ProducerBatch) -> None:
        """Inserts a batch by its age. Batches that were in flight together may fail in any order."""
        self.retrying = True
        position = 0
        for other in self.closed:
            if other.order > batch.order:
                break
            position += 1
        self.closed.insert(position, batch)

    def take_all(self) -> list[ProducerBatch]:
        """Removes and returns all batches that are not in flight."""
        batches = [*self.closed, *([] if self.open is None else [self.open])]
        self.closed.clear()
        self.open = None
        return batches

    def may_repeat(self, error: ClientError | KafkaError) -> bool:
        """True if a batch with this error may be retried."""
        if isinstance(error, KafkaError):
            if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                # The batch follows a batch that has to be retried.
                return self.retrying or self.in_flight > 0
            return error.code.retriable
        return isinstance(error, ClusterUnreachable | ConnectionLost | TimedOut)
