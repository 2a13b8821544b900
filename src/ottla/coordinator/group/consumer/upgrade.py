"""A classic group becomes a consumer group when the first member of the new protocol joins it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["upgrade"]


def upgrade(shard: GroupShard, group: ClassicGroup, records: list[CoordinatorRecord]) -> ConsumerGroup:
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
