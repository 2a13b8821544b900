"""Producer id, epoch and sequence numbers: what makes a repeated batch recognisable (KIP-98)."""

from __future__ import annotations

from ottla.client.cluster import Cluster
from ottla.client.errors import check
from ottla.model.ids import TopicPartition
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["ProducerIdentity", "ask_identity"]

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


async def ask_identity(cluster: Cluster, identity: ProducerIdentity, *, timeout_ms: int) -> None:
    """A producer id of an idempotent producer without transactions; any broker gives one."""

    async def attempt() -> InitProducerIdResponse:
        connection = await cluster.any_connection()
        response: InitProducerIdResponse = await connection.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2_147_483_647), timeout_ms=timeout_ms
        )
        check(response.error_code)
        return response

    response = await cluster.retry(attempt)
    identity.set(response.producer_id, response.producer_epoch)
