"""When a node begins to coordinate groups: with the topic of their offsets, or with the first request about one.

A node that never sees a group never pays for the coordinator, neither in memory nor at its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.coordinator.group import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.coordinator.group.lag import GroupLag
    from ottla.coordinator.group.service import GroupCoordinator
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage

__all__ = ["GroupCoordination"]


class GroupCoordination:
    """Follows the metadata in the coordinator's name, and makes it when it is needed."""

    __slots__ = ("_broker", "_coordinator", "_is_closed")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._coordinator: GroupCoordinator | None = None
        self._is_closed = False

    @property
    def coordinator(self) -> GroupCoordinator:
        if self._coordinator is None:
            self._coordinator = self._make()
        return self._coordinator

    @property
    def existing(self) -> GroupCoordinator | None:
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

    def lags(self) -> Iterator[GroupLag]:
        """How far groups are behind; asking does not make a coordinator."""
        return iter(()) if self._coordinator is None else self._coordinator.lags()

    def close(self) -> None:
        self._is_closed = True
        if self._coordinator is not None:
            self._coordinator.close()

    def _begin_if_needed(self, image: MetadataImage) -> None:
        if self._coordinator is None and OFFSETS_TOPIC in image.topics.by_name:
            self._coordinator = self._make()

    def _make(self) -> GroupCoordinator:
        from ottla.coordinator.group.service import GroupCoordinator

        broker = self._broker
        image = broker.metadata.image
        coordinator = GroupCoordinator(config=broker.config, world=broker.world, replicas=broker.replicas, image=image)
        broker.on_config_changed.append(coordinator.on_broker_config)
        if not self._is_closed:
            coordinator.start(image)
        return coordinator
