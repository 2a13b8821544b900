"""A consumer group becomes a classic one again when its last member of the new protocol leaves it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.runtime import Decision

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["can_downgrade_without", "downgrade_without"]

R = TypeVar("R")


def can_downgrade_without(group: ConsumerGroup, members: Collection[ConsumerMember]) -> bool:
    return False


def downgrade_without(
    shard: GroupShard, group: ConsumerGroup, members: Collection[ConsumerMember], response: R, now_ms: int
) -> Decision[R]:
    raise NotImplementedError
