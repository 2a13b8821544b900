"""When a node begins to coordinate transactions: with the topic of their states, or with the first request about one.

A node that never sees a transaction never pays for the coordinator. This is also where the coordinator meets the rest
of the cluster: leaders of partitions, to whom markers go, and the controller, who gives out producer ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.coordinator.txn import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordinator.txn.service import TransactionCoordinator
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.deferred import Deferred
    from ottla.model.ids import TopicPartition
    from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = ["TransactionCoordination"]

# Markers have a connection of their own, for they may wait for followers.
_PURPOSE = "markers"


class TransactionCoordination:
    """Follows the metadata in the coordinator's name, and makes it when it is needed."""

    __slots__ = ("_broker", "_coordinator", "_is_closed")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordinator: TransactionCoordinator | None = None
        self._is_closed = False

    @property
    def coordinator(self) -> TransactionCoordinator:
        if self._coordinator is None:
            self._coordinator = self._make()
        return self._coordinator

    @property
    def existing(self) -> TransactionCoordinator | None:
        """The coordinator, if there is one: asking does not make it."""
        return self._coordinator

    def start(self, image: MetadataImage) -> None:
        """Called after the replicas have taken up the image."""
        self._begin_if_needed(image)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._coordinator is not None:
            self._coordinator.publish(delta, image)
        else:
            self._begin_if_needed(image)

    def close(self) -> None:
        self._is_closed = True
        if self._coordinator is not None:
            self._coordinator.close()

    def _begin_if_needed(self, image: MetadataImage) -> None:
        if self._coordinator is None and TRANSACTION_TOPIC in image.topics.by_name:
            self._coordinator = self._make()

    def _make(self) -> TransactionCoordinator:
        from ottla.coordinator.txn.service import TransactionCoordinator

        broker = self._broker
        image = broker.metadata.image
        coordinator = TransactionCoordinator(
            config=broker.config,
            world=broker.world,
            replicas=broker.replicas,
            image=image,
            port=_Leaders(broker),
            new_producer_id=broker.producer_ids.next_id,
        )
        broker.on_config_changed.append(coordinator.on_broker_config)
        if not self._is_closed:
            coordinator.start(image)
        return coordinator


class _Leaders:
    """Who takes markers."""

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
