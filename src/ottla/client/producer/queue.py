"""The batches of one partition, oldest first."""

from __future__ import annotations

from collections import deque

from ottla.client.errors import ClientError, ConnectionLost
from ottla.client.producer.batch import ProducerBatch
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["PartitionQueue"]


class PartitionQueue:
    """What has not been acknowledged: one batch being filled, those that wait, and how many are in flight."""

    __slots__ = ("closed", "in_flight", "known_producer_id", "open", "retrying")

    def __init__(self) -> None:
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.in_flight = 0
        # Whether a batch came back: until it has left again, nothing younger may overtake it.
        self.retrying = False
        # The producer id that the leader has acknowledged a batch of.
        self.known_producer_id = -1

    def must_wait(self, producer_id: int) -> bool:
        """Whether nothing may be sent before what is in flight has landed.

        A leader that knows nothing of a producer takes any sequence number for its first: if the first batch does not
        reach it and the second does, the first is out of order for ever. So the first one goes alone.
        """
        return self.in_flight > 0 and (self.retrying or self.known_producer_id != producer_id)

    def put_back(self, batch: ProducerBatch) -> None:
        """Into its place, before everything younger. What was in flight together may come back in any order."""
        self.retrying = True
        position = 0
        for other in self.closed:
            if other.number > batch.number:
                break
            position += 1
        self.closed.insert(position, batch)

    def take_all(self) -> list[ProducerBatch]:
        """Everything that has not left; nothing of it is here any more."""
        batches = [*self.closed, *([] if self.open is None else [self.open])]
        self.closed.clear()
        self.open = None
        return batches

    def may_repeat(self, error: ClientError | KafkaError) -> bool:
        """Whether a batch that failed like this may be sent again."""
        if isinstance(error, KafkaError):
            if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                # It follows one that has to be sent again itself.
                return self.retrying or self.in_flight > 0
            return error.code.retriable
        return isinstance(error, ConnectionLost)
