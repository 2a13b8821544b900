"""The keys of groups and of client-metrics subscriptions.

A group without a setting of its own uses the broker key in `synonyms` (KIP-848, KIP-932, KIP-1071).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.model.config.columns import BOOLEAN, CLUSTER_WIDE, INT, LIST, MEDIUM, STRING
from ottla.model.config.keys import HONOURED, ConfigError, ConfigKey
from ottla.model.config.statuses import NEW_GROUPS
from ottla.model.config.validators import AnyList, OffsetReset, OneOf, Validator, at_least
from ottla.model.config.values import ConfigType, Setting
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.model.config.broker_config import BrokerConfig

__all__ = ["CLIENT_METRICS_KEYS", "GROUP_KEYS", "validate_client_metrics", "validate_group"]


def _group(
    name: str, kind: ConfigType, default: Setting, validator: Validator | None, text: str, *, own: bool = False
) -> ConfigKey:
    synonyms = () if own else (f"group.{name}",)
    status = HONOURED if name.startswith("consumer.") else NEW_GROUPS
    return ConfigKey(name, kind, default, validator, MEDIUM, CLUSTER_WIDE, status, text, synonyms=synonyms)


def _metrics(name: str, kind: ConfigType, default: Setting, validator: Validator | None, text: str) -> ConfigKey:
    return ConfigKey(name, kind, default, validator, MEDIUM, CLUSTER_WIDE, HONOURED, text)


# fmt: off
_GROUP_KEYS = (
    _group("consumer.assignment.interval.ms", INT, 1000, at_least(0),
           "Shortest time between two assignments of the group."),
    _group("consumer.heartbeat.interval.ms", INT, 5000, at_least(1),
           "Time between two heartbeats of a consumer of the group."),
    _group("consumer.session.timeout.ms", INT, 45_000, at_least(1),
           "Time without heartbeat after which a consumer leaves the group."),
    _group("share.assignment.interval.ms", INT, 1000, at_least(0),
           "Shortest time between two assignments of the share group."),
    _group("share.auto.offset.reset", STRING, "latest", OffsetReset(),
           "Where the share group begins a partition it has no state for.", own=True),
    _group("share.delivery.count.limit", INT, 5, at_least(2),
           "How often a record is delivered to the group before it is given up."),
    _group("share.heartbeat.interval.ms", INT, 5000, at_least(1),
           "Time between two heartbeats of a member of the share group."),
    _group("share.isolation.level", STRING, "read_uncommitted", OneOf("read_committed", "read_uncommitted"),
           "Whether the share group sees records of open and aborted transactions.", own=True),
    _group("share.partition.max.record.locks", INT, 2000, at_least(100),
           "Most records of a partition the share group has in flight at once."),
    _group("share.record.lock.duration.ms", INT, 30_000, at_least(1000),
           "Time a member of the share group holds a record it has not answered for."),
    _group("share.renew.acknowledge.enable", BOOLEAN, True, None,
           "Whether a member may extend its hold on a record.", own=True),
    _group("share.session.timeout.ms", INT, 45_000, at_least(1),
           "Time without heartbeat after which a member leaves the share group."),
    _group("streams.assignment.interval.ms", INT, 1000, at_least(0),
           "Shortest time between two assignments of the streams group."),
    _group("streams.heartbeat.interval.ms", INT, 5000, at_least(1),
           "Time between two heartbeats of a member of the streams group."),
    _group("streams.initial.rebalance.delay.ms", INT, 3000, at_least(0),
           "Time the empty streams group waits for more members before its first assignment."),
    _group("streams.num.standby.replicas", INT, 0, at_least(0),
           "Standby copies of each task's state in the streams group."),
    _group("streams.session.timeout.ms", INT, 45_000, at_least(1),
           "Time without heartbeat after which a member leaves the streams group."),
)
_CLIENT_METRICS_KEYS = (
    _metrics("interval.ms", INT, 300_000, None, "Time between two pushes of a client's metrics."),
    _metrics("match", LIST, (), AnyList(), "Which clients the subscription is for, as key=pattern entries."),
    _metrics("metrics", LIST, (), AnyList(), "Prefixes of the metrics wanted; * for all."),
)
# fmt: on

GROUP_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _GROUP_KEYS}
CLIENT_METRICS_KEYS: Final[Mapping[str, ConfigKey]] = {key.name: key for key in _CLIENT_METRICS_KEYS}

# The client attributes that a subscription may match, and the limits of its interval (KIP-714).
_MATCHED = ("client_instance_id", "client_id", "client_software_name", "client_software_version",
            "client_source_address", "client_source_port")  # fmt: skip
_INTERVAL_MS_MIN = 100
_INTERVAL_MS_MAX = 3_600_000


# Group keys for which the broker sets bounds: group.<kind>.min.<rest> and group.<kind>.max.<rest>.
_BOUNDED: Final = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
)


def validate_group(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raises ConfigError with the message for the response."""
    values: dict[str, Setting] = {}
    for name, text in overrides.items():
        if name not in GROUP_KEYS:
            raise ConfigError(f"There is no group configuration named {name}.", key=name)
        values[name] = GROUP_KEYS[name].parse(text)
    for name in values.keys() & _BOUNDED:
        kind, _, setting = name.partition(".")
        _check_bound(config, name, values[name], f"group.{kind}.min.{setting}", is_lowest=True)
        _check_bound(config, name, values[name], f"group.{kind}.max.{setting}")
    standby = "streams.num.standby.replicas"
    if standby in values:
        _check_bound(config, standby, values[standby], "group.streams.max.standby.replicas")
    for kind in ("consumer", "share", "streams"):
        heartbeat, session = (
            values.get(name, config.get(f"group.{name}"))
            for name in (f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms")
        )
        assert isinstance(heartbeat, int)
        assert isinstance(session, int)
        if heartbeat >= session:
            raise ConfigError(
                f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms; they are {session} and "
                f"{heartbeat}.",
                key=f"{kind}.heartbeat.interval.ms",
            )


def _check_bound(config: BrokerConfig, name: str, value: Setting, bound: str, *, is_lowest: bool = False) -> None:
    """`bound` is the broker key with the limit, which the error message names."""
    limit = config.get(bound)
    assert isinstance(value, int)
    assert isinstance(limit, int)
    if value < limit if is_lowest else value > limit:
        side = "greater" if is_lowest else "less"
        raise ConfigError(f"{name} must be {side} than or equal to {bound}, {limit}, and not {value}.", key=name)


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raises KafkaError with the message for the response."""
    for name, text in overrides.items():
        if name not in CLIENT_METRICS_KEYS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no client-metrics configuration named {name}.")
        value = CLIENT_METRICS_KEYS[name].parse(text)
        if name == "interval.ms" and not (isinstance(value, int) and _INTERVAL_MS_MIN <= value <= _INTERVAL_MS_MAX):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"interval.ms is {text}, but it must be between {_INTERVAL_MS_MIN} and {_INTERVAL_MS_MAX}.",
            )
        if name == "match":
            assert isinstance(value, tuple)
            _check_match(value)


def _check_match(entries: tuple[str, ...]) -> None:
    for entry in entries:
        name, separator, pattern = (part.strip() for part in entry.partition("="))
        if not separator or name not in _MATCHED or not _is_pattern(pattern):
            raise ConfigError(
                f"match has the entry {entry!r}, but an entry must look like name=pattern with a regular "
                f"expression and one of {', '.join(_MATCHED)}.",
                key="match",
            )


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
