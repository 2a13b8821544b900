"""The configuration keys of Kafka's share consumer: those of a consumer, except for those that share groups lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.config.consumer import CONSUMER_CONNECTION_KEYS, CONSUMER_OWN_KEYS
from ottla.client.config.kinds import ClientKind
from ottla.client.config.reading import ConfigurationError, Key, word
from ottla.client.settings import ClientSettings
from ottla.client.share.settings import ShareSettings

__all__ = ["SHARE", "SHARE_KEYS", "read_share"]

# Kafka's share consumer refuses these, too.
_REFUSED = {
    "auto.offset.reset": "the group decides it: set share.auto.offset.reset of the group",
    "auto.commit.interval.ms": "a share group commits no offsets",
    "enable.auto.commit": "a share group commits no offsets: set share.acknowledgement.mode",
    "group.instance.id": "share groups have no static members",
    "group.protocol": "share groups have a protocol of their own",
    "group.remote.assignor": "the coordinator decides it",
    "heartbeat.interval.ms": "the coordinator decides it: set share.heartbeat.interval.ms of the group",
    "interceptor.classes": "share consumers have no interceptors",
    "isolation.level": "the group decides it: set share.isolation.level of the group",
    "partition.assignment.strategy": "the coordinator decides it",
    "session.timeout.ms": "the coordinator decides it: set share.session.timeout.ms of the group",
}


def _explicit(name: str, value: Any) -> bool:
    return bool(word("implicit", "explicit")(name, value) == "explicit")


def _limits(name: str, value: Any) -> bool:
    return bool(word("batch_optimized", "record_limit")(name, value) == "record_limit")


SHARE: ClientKind[ShareSettings] = ClientKind(
    "share consumer",
    ShareSettings,
    {
        **{name: key for name, key in CONSUMER_OWN_KEYS.items() if name not in _REFUSED},
        "share.acknowledgement.mode": Key(_explicit, "explicit"),
        "share.acquire.mode": Key(_limits, "limits_records"),
    },
    CONSUMER_CONNECTION_KEYS,
)
SHARE_KEYS = SHARE.keys


def read_share(config: Mapping[str, Any]) -> tuple[ClientSettings, ShareSettings]:
    """The settings of a share consumer and of its connections. Raises ConfigurationError."""
    for name, why in _REFUSED.items():
        if name in config:
            raise ConfigurationError(f"{name} is no setting of a share consumer: {why}.")
    return SHARE.read(config)
