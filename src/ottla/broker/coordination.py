"""Creates a coordinator when the topic of its state exists, or with the first request.

A node without groups or transactions has no cost for their coordinators, neither in memory nor at its start.
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
    """The interface of a coordinator to the node."""

    def start(self, image: MetadataImage) -> None: ...

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None: ...

    def on_broker_config(self, config: BrokerConfig) -> None: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Coordinator)


class Coordination(Generic[C]):
    """Creates the coordinator when it is needed, and passes the metadata to it."""

    __slots__ = ("_broker", "_coordinator", "_is_closed")

    TOPIC: ClassVar[str]

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordinator: C | None = None
        self._is_closed = False

    def _make(self, image: MetadataImage) -> C:
        """Creates the coordinator for this image. Imports its code, which is not needed earlier."""
        raise NotImplementedError

    @property
    def coordinator(self) -> C:
        return self._begin() if self._coordinator is None else self._coordinator

    @property
    def existing(self) -> C | None:
        """The coordinator; None if it does not exist yet. Unlike `coordinator`, this does not create it."""
        return self._coordinator

    def start(self, image: MetadataImage) -> None:
        """Called after the replicas have applied the image."""
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
