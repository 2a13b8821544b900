"""The policy for upgrades and downgrades of groups: `group.consumer.migration.policy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["allows_downgrade", "allows_upgrade", "is_disabled"]


def is_disabled(shard: GroupShard) -> bool:
    return _policy(shard) == "disabled"


def allows_upgrade(shard: GroupShard) -> bool:
    return _policy(shard) in ("upgrade", "bidirectional")


def allows_downgrade(shard: GroupShard) -> bool:
    return _policy(shard) in ("downgrade", "bidirectional")


def _policy(shard: GroupShard) -> str:
    return shard.config.group_consumer_migration_policy.lower()
