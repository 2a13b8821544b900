"""Connects the coordinator of transactions to the node and to the cluster.

It sends markers to the leaders of partitions, and gets producer ids from the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.broker.coordination import Coordination
from ottla.coordinator.txn import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordinator.txn.service import TransactionCoordinator
    from ottla.metadata.image import MetadataImage
    from ottla.model.deferred import Deferred
    from ottla.model.ids import TopicPartition
    from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = ["TransactionCoordination"]

# Markers have their own connection, because their answers may have to wait for followers.
_PURPOSE = "markers"


class TransactionCoordination(Coordination["TransactionCoordinator"]):
    __slots__ = ()

    TOPIC = TRANSACTION_TOPIC

    def _make(self, image: MetadataImage) -> TransactionCoordinator:
        from ottla.coordinator.txn.service import TransactionCoordinator

        broker = self._broker
        return TransactionCoordinator(
            config=broker.config,
            world=broker.world,
            replicas=broker.replicas,
            image=image,
            port=_Leaders(broker),
            new_producer_id=broker.producer_ids.next_id,
            may_be_replaced=broker.may_be_replaced,
        )


class _Leaders:
    """The leaders of partitions, which receive markers."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def leader_of(self, partition: TopicPartition) -> int | None:
        image = self._broker.metadata.image.topics.partition(*partition)
        return None if image is None else image.leader

    def write(self, node_id: int, request: WriteTxnMarkersRequest) -> Deferred[WriteTxnMarkersResponse]:
        from ottla.broker.local_calls import ask_broker

        answer = ask_broker(self._broker, node_id, request, purpose=_PURPOSE)
        return cast("Deferred[WriteTxnMarkersResponse]", answer)
