"""Producer id, epoch and sequence numbers, by which brokers recognise a repeated batch (KIP-98)."""

from __future__ import annotations

from ottla.client.cluster import Cluster
from ottla.client.errors import check
from ottla.model.ids import TopicPartition
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["SEQUENCE_WRAP", "ProducerIdentity", "ask_identity"]

SEQUENCE_WRAP = 0x80000000
_EPOCH_MAX = 0x7FFF


class ProducerIdentity:
    """Producer id and epoch. Sequence numbers count records by partition, and restart at 0 with a new epoch."""

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

    @property
    def pair(self) -> tuple[int, int]:
        """Producer id and epoch: batches of one pair have consecutive sequence numbers."""
        return self.producer_id, self.epoch

    def raise_epoch(self) -> None:
        """Restarts the sequence numbers after a gap, for a producer without transactions (KIP-360).

        Leaders that have seen the new epoch refuse batches of the old epoch. So a batch that has failed and arrives
        late cannot be written behind its successors. After the last epoch the producer needs a new id.
        """
        if self.epoch < _EPOCH_MAX:
            self.set(self.producer_id, self.epoch + 1)
        else:
            self.set(-1, -1)

    def take(self, partition: TopicPartition, count: int) -> int:
        """Takes `count` sequence numbers; returns the first."""
        first = self._next.get(partition, 0)
        self._next[partition] = (first + count) % SEQUENCE_WRAP
        return first


async def ask_identity(cluster: Cluster, identity: ProducerIdentity, *, timeout_ms: int) -> None:
    """Requests a producer id for an idempotent producer without transactions, from any broker."""

    async def attempt() -> InitProducerIdResponse:
        connection = await cluster.any_connection()
        response: InitProducerIdResponse = await connection.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2_147_483_647), timeout_ms=timeout_ms
        )
        check(response.error_code)
        return response

    response = await cluster.retry(attempt)
    identity.set(response.producer_id, response.producer_epoch)
