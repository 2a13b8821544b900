"""Decides whether this broker serves the consumer group protocol (KIP-848): by its configuration and a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["is_consumer_protocol_enabled"]

_GROUP_VERSION_WITH_CONSUMER_PROTOCOL = 1


def is_consumer_protocol_enabled(broker: Broker) -> bool:
    group_version = broker.metadata.image.features.finalized.get("group.version", 0)
    is_configured = "consumer" in broker.config.group_coordinator_rebalance_protocols
    return is_configured and group_version >= _GROUP_VERSION_WITH_CONSUMER_PROTOCOL
