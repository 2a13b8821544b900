"""When a node begins to coordinate: with the topic that holds the coordinator's state, or with the first request.

A node that never sees a group or a transaction never pays for its coordinator, neither in memory nor at its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig

__all__ = ["Coordination", "Coordinator"]


class Coordinator(Protocol):
    """What all coordinators are to the node."""

    def start(self, image: MetadataImage) -> None: ...

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None: ...

    def on_broker_config(self, config: BrokerConfig) -> None: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Coordinator)


class Coordination(Generic[C]):
    """Follows the metadata in the coordinator's name, and makes it when it is needed."""

    __slots__ = ("_broker", "_coordinator", "_is_closed")

    TOPIC: ClassVar[str]

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordinator: C | None = None
        self._is_closed = False

    def _make(self, image: MetadataImage) -> C:
        """The coordinator as of this image; imports it, too, since most of its code is not needed before."""
        raise NotImplementedError

    @property
    def coordinator(self) -> C:
        return self._begin() if self._coordinator is None else self._coordinator

    @property
    def existing(self) -> C | None:
        """The coordinator, if there is one: asking does not make it."""
        return self._coordinator

    def start(self, image: MetadataImage) -> None:
        """Called after the replicas have taken up the image."""
        if self._coordinator is None and self.TOPIC in image.topics.by_name:
            self._begin()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._coordinator is not None:
            self._coordinator.publish(delta, image)
        else:
            self.start(image)

    def close(self) -> None:
        self._is_closed = True
        if self._coordinator is not None:
            self._coordinator.close()

    def _begin(self) -> C:
        broker = self._broker
        image = broker.metadata.image
        coordinator = self._coordinator = self._make(image)
        broker.on_config_changed.append(coordinator.on_broker_config)
        if not self._is_closed:
            coordinator.start(image)
        return coordinator
