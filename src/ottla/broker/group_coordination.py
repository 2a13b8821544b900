"""Connects the coordinator of consumer groups to the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.coordination import Coordination
from ottla.coordinator.group import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ottla.coordinator.group.lag import GroupLag
    from ottla.coordinator.group.service import GroupCoordinator
    from ottla.metadata.image import MetadataImage

__all__ = ["GroupCoordination"]


class GroupCoordination(Coordination["GroupCoordinator"]):
    __slots__ = ()

    TOPIC = OFFSETS_TOPIC

    def lags(self) -> Iterator[GroupLag | None]:
        """The lags of all groups; empty if the coordinator does not exist yet. None is a pause."""
        return iter(()) if self._coordinator is None else self._coordinator.lags()

    def _make(self, image: MetadataImage) -> GroupCoordinator:
        from ottla.coordinator.group.service import GroupCoordinator

        broker = self._broker
        return GroupCoordinator(
            config=broker.config,
            world=broker.world,
            replicas=broker.replicas,
            image=image,
            may_be_replaced=broker.may_be_replaced,
        )
