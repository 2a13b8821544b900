"""Producer id, epoch and sequence numbers: what makes a repeated batch recognisable (KIP-98)."""

from __future__ import annotations

from ottla.model.ids import TopicPartition

__all__ = ["ProducerIdentity"]

_WRAP = 0x80000000


class ProducerIdentity:
    """Who a producer is to the brokers. Sequence numbers count records, by partition, and begin anew with an epoch."""

    __slots__ = ("_next", "epoch", "producer_id")

    def __init__(self) -> None:
        self.producer_id = -1
        self.epoch = -1
        self._next: dict[TopicPartition, int] = {}

    @property
    def known(self) -> bool:
        return self.producer_id >= 0

    def set(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._next.clear()
        self.producer_id = producer_id
        self.epoch = epoch

    def forget(self) -> None:
        self.set(-1, -1)

    def take(self, partition: TopicPartition, count: int) -> int:
        """The first of `count` sequence numbers."""
        first = self._next.get(partition, 0)
        self._next[partition] = (first + count) % _WRAP
        return first
