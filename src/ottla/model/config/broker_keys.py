"""All broker keys of Apache Kafka 4.3, collected from the tables by subject."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.model.config.broker_keys_group import GROUP_KEYS
from ottla.model.config.broker_keys_log import LOG_KEYS
from ottla.model.config.broker_keys_network import NETWORK_KEYS
from ottla.model.config.broker_keys_node import NODE_KEYS
from ottla.model.config.broker_keys_remote import REMOTE_KEYS
from ottla.model.config.broker_keys_replication import REPLICATION_KEYS
from ottla.model.config.broker_keys_security import SECURITY_KEYS
from ottla.model.config.broker_keys_transaction import TRANSACTION_KEYS
from ottla.model.config.keys import ConfigKey

__all__ = ["BROKER_KEYS", "DYNAMIC_ONLY_KEYS", "STAND_INS"]

BROKER_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for table in (
        NODE_KEYS,
        NETWORK_KEYS,
        LOG_KEYS,
        REPLICATION_KEYS,
        GROUP_KEYS,
        TRANSACTION_KEYS,
        SECURITY_KEYS,
        REMOTE_KEYS,
    )
    for key in table
}

# Keys that can only be set dynamically; DescribeConfigs shows them only if they are set.
DYNAMIC_ONLY_KEYS: Final = frozenset(
    (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
)

# Groups of keys for the same value, in the order of precedence, by the name of each key.
STAND_INS: Final[Mapping[str, tuple[str, ...]]] = {
    name: group
    for group in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for name in group
    if name != "log.flush.scheduler.interval.ms"
}
