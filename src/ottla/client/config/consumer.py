"""The configuration keys of Kafka's consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.config.kinds import ClientKind
from ottla.client.config.reading import (
    ConfigurationError,
    Key,
    configure_plugins,
    converter,
    flag,
    number,
    objects,
    only,
    text,
    word,
)
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.settings import ClientSettings

__all__ = ["CONSUMER", "CONSUMER_CONNECTION_KEYS", "CONSUMER_KEYS", "CONSUMER_OWN_KEYS", "read_consumer"]

_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
# The coordinator decides these for groups of the new protocol (KIP-848).
_CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


def _assignors(name: str, value: Any) -> tuple[Any, ...]:
    """Names of Kafka's classes or of their protocols; a custom assignor is an object or a Python class."""
    if isinstance(value, str):
        value = value.split(",")
    given = value if isinstance(value, list | tuple) else [value]
    assignors: list[Any] = []
    for assignor in given:
        short = assignor.strip().removeprefix("class ").rpartition(".")[2] if isinstance(assignor, str) else ""
        protocol = _ASSIGNORS.get(short, short)
        assignors += [protocol] if protocol in _ASSIGNORS.values() else objects(name, assignor)
    if not assignors:
        raise ConfigurationError(f"{name} is empty; name an assignor, such as {', '.join(_ASSIGNORS.values())}.")
    return tuple(assignors)


def _reset(name: str, value: Any) -> str:
    policy = str(value).strip().lower()
    if policy not in ("earliest", "latest", "none") and not policy.startswith("by_duration:"):
        raise ConfigurationError(f"{name}={value!r} must be earliest, latest, none or by_duration:PnDTnHnMn.nS.")
    return policy if ":" not in policy else f"by_duration:{str(value).strip().partition(':')[2]}"


def _committed(name: str, value: Any) -> bool:
    return bool(word("read_committed", "read_uncommitted")(name, value) == "read_committed")


_SHARE = "it belongs to share consumers (ottla.client.share.ShareConsumer)."
CONSUMER_CONNECTION_KEYS: Mapping[str, Key] = {
    "default.api.timeout.ms": Key(number(), "api_timeout_ms"),
    "enable.metrics.push": Key(flag, "pushes_metrics"),
}
CONSUMER_OWN_KEYS: Mapping[str, Key] = {
    "allow.auto.create.topics": Key(flag, "allow_auto_create"),
    "auto.commit.interval.ms": Key(number(), "auto_commit_interval_ms"),
    "auto.offset.reset": Key(_reset, "auto_offset_reset"),
    "check.crcs": Key(flag, "check_crcs"),
    "client.rack": Key(text, "rack"),
    "default.api.timeout.ms": Key(number()),
    "enable.auto.commit": Key(flag, "auto_commit"),
    "enable.metrics.push": Key(flag),
    "exclude.internal.topics": Key(flag, "exclude_internal_topics"),
    "fetch.max.bytes": Key(number(), "fetch_max_bytes"),
    "fetch.max.wait.ms": Key(number(), "fetch_max_wait_ms"),
    "fetch.min.bytes": Key(number(), "fetch_min_bytes"),
    "group.id": Key(text, "group_id"),
    "group.instance.id": Key(text, "group_instance_id"),
    "group.protocol": Key(word("classic", "consumer"), "group_protocol"),
    "group.remote.assignor": Key(text, "remote_assignor"),
    "heartbeat.interval.ms": Key(number(), "heartbeat_interval_ms"),
    "interceptor.classes": Key(objects, "interceptors"),
    "internal.throw.on.fetch.stable.offset.unsupported": Key(
        only("false", why="Kafka Streams sets it; it is no setting of an application.")
    ),
    "isolation.level": Key(_committed, "read_committed"),
    "max.partition.fetch.bytes": Key(number(), "partition_fetch_bytes"),
    "max.poll.interval.ms": Key(number(at_least=1), "max_poll_interval_ms"),
    "max.poll.records": Key(number(at_least=1), "max_poll_records"),
    "partition.assignment.strategy": Key(_assignors, "assignors"),
    "session.timeout.ms": Key(number(), "session_timeout_ms"),
    "share.acknowledgement.mode": Key(only("implicit", why=_SHARE)),
    "share.acquire.mode": Key(only("batch_optimized", why=_SHARE)),
    "key.deserializer": Key(converter("deserializer"), "key_deserializer"),
    "value.deserializer": Key(converter("deserializer"), "value_deserializer"),
}


def _choose_protocol(config: Mapping[str, Any], fields: dict[str, Any]) -> None:
    classic = [name for name in _CLASSIC_ONLY if name in config]
    if classic and fields.get("group_protocol") == "consumer":
        raise ConfigurationError(
            f"{classic[0]} has no meaning with group.protocol=consumer, where the coordinator decides it; "
            "remove it, or set group.protocol=classic."
        )
    if classic and "group_protocol" not in fields:
        # Only classic groups have these settings.
        fields["group_protocol"] = "classic"


CONSUMER: ClientKind[ConsumerSettings] = ClientKind(
    "consumer", ConsumerSettings, CONSUMER_OWN_KEYS, CONSUMER_CONNECTION_KEYS, _choose_protocol
)
CONSUMER_KEYS = CONSUMER.keys


def read_consumer(config: Mapping[str, Any]) -> tuple[ClientSettings, ConsumerSettings]:
    """The settings of a consumer and of its connections; plug-ins get the whole configuration.

    Raises ConfigurationError.
    """
    connections, settings = CONSUMER.read(config)
    configure_plugins(settings.interceptors, config)
    return connections, settings
