"""The settings of a consumer group: its own, or the broker's defaults.

A group's own setting is clamped to the broker's bounds, which may have become narrower since it was set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.metadata.image import ResourceType

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupContext

__all__ = ["assignment_interval_ms", "heartbeat_interval_ms", "session_timeout_ms"]


def session_timeout_ms(context: GroupContext, group_id: str) -> int:
    config = context.config
    own = _own(context, group_id, "consumer.session.timeout.ms")
    if own is None:
        return config.group_consumer_session_timeout_ms
    return _clamp(own, config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms)


def heartbeat_interval_ms(context: GroupContext, group_id: str) -> int:
    config = context.config
    own = _own(context, group_id, "consumer.heartbeat.interval.ms")
    if own is None:
        return config.group_consumer_heartbeat_interval_ms
    return _clamp(own, config.group_consumer_min_heartbeat_interval_ms, config.group_consumer_max_heartbeat_interval_ms)


def assignment_interval_ms(context: GroupContext, group_id: str) -> int:
    config = context.config
    own = _own(context, group_id, "consumer.assignment.interval.ms")
    if own is None:
        return config.group_consumer_assignment_interval_ms
    return _clamp(
        own, config.group_consumer_min_assignment_interval_ms, config.group_consumer_max_assignment_interval_ms
    )


def _own(context: GroupContext, group_id: str, name: str) -> int | None:
    text = context.image.configs.of(ResourceType.GROUP, group_id).get(name)
    return None if text is None else int(text)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
