"""Dynamic changes of broker configurations (KIP-226).

A change is checked twice. `check_dynamic_names` and `check_dynamic_values` use only the tables, so that every
controller can apply them. `check_dynamic_change` runs on the node itself and validates the resulting configuration. The
checks fail with INVALID_REQUEST, as in Apache Kafka for brokers (for topics it is INVALID_CONFIG).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.model.config.broker_config import BrokerConfig
from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.keys import ConfigError, ConfigKey, UpdateMode
from ottla.model.config.listener_keys import LISTENER_PREFIX, TLS_KEYS, is_tls_of_listener
from ottla.model.config.own_keys import OWN_KEYS
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["check_dynamic_change", "check_dynamic_names", "check_dynamic_values", "usable_dynamic"]

# Pool sizes, which may at most double or halve in one change.
_POOLS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)

# Limits that must not become 0 dynamically: no client could connect to change them back.
_NEVER_NONE: Final = ("max.connections", "max.connection.creation.rate")

# Listeners are opened at start. These keys can change dynamically in Apache Kafka, but not here yet.
_FIXED_AT_START: Final = ("listeners", "listener.security.protocol.map")


def check_dynamic_names(names: Iterable[str], *, for_all_brokers: bool) -> None:
    """Rejects keys that cannot change at run time or not at this level. Unknown keys are accepted."""
    keys = {name: key for name in names if (key := _key_of(name)) is not None}
    if fixed := [name for name, key in keys.items() if key.update_mode is UpdateMode.READ_ONLY]:
        # The tests of Kafka's tool expect these words; see docs/decisions/0005-sentences-on-the-wire.md.
        raise _refused(
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]. "
            "Change the properties file and start the node again."
        )
    for name, key in keys.items():
        if for_all_brokers and (key.update_mode is UpdateMode.PER_BROKER or name.startswith(LISTENER_PREFIX)):
            raise _refused(f"{name} can only be set for one broker, not for all of them.")
        # Certificates and keys can only change per listener.
        if name in TLS_KEYS:
            raise _refused(
                f"{name} can only change for one listener: use {LISTENER_PREFIX}<listener in lower case>.{name}."
            )


def check_dynamic_values(values: Mapping[str, str]) -> None:
    """Rejects values that are invalid for every broker."""
    for name, text in values.items():
        key = _key_of(name)
        if key is None:
            continue
        try:
            value = key.parse(text)
            if not is_tls_of_listener(name):
                key.check_supported(value)
            if value == 0 and name.endswith(_NEVER_NONE):
                raise ConfigError(f"{name} cannot become 0 while the node runs: no client could connect.", key=name)
        except ConfigError as error:
            raise _refused(error.message) from None


def check_dynamic_change(
    config: BrokerConfig,
    *,
    dynamic: Mapping[str, str] | None = None,
    dynamic_defaults: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The configuration of this node after the change. The arguments are complete layers, not differences."""
    try:
        changed = config.with_dynamic(dynamic=dynamic, dynamic_defaults=dynamic_defaults)
    except ConfigError as error:
        raise _refused(error.message) from None
    for name in _FIXED_AT_START:
        if changed.get(name) != config.get(name):
            raise _refused(f"{name} cannot change while the node runs yet: set it in the properties file.")
    for name in _POOLS:
        _check_pool(name, config.get(name), changed.get(name))
    return changed


def usable_dynamic(
    config: BrokerConfig, *, dynamic: Mapping[str, str], dynamic_defaults: Mapping[str, str]
) -> tuple[BrokerConfig, tuple[str, ...]]:
    """The configuration with these layers, without their invalid values, and a message for each value left out.

    Values in the metadata log may come from another release or another broker, and must not stop this node.
    """
    own, defaults = dict(dynamic), dict(dynamic_defaults)
    problems: list[str] = []
    for _ in range(len(own) + len(defaults) + 1):
        try:
            return config.with_dynamic(dynamic=own, dynamic_defaults=defaults), tuple(problems)
        except ConfigError as error:
            problems.append(error.message)
            if error.key in own:
                del own[error.key]
            elif error.key in defaults:
                del defaults[error.key]
            elif not _drop_one_value(config, own, defaults):
                # Several values contradict each other, and no single value is the cause: both layers are dropped.
                own, defaults = {}, {}
    raise AssertionError("without dynamic values the configuration was valid when the node started")


def _drop_one_value(config: BrokerConfig, own: dict[str, str], defaults: dict[str, str]) -> bool:
    """Removes one value if the remaining values are valid without it; returns whether there was such a value.

    The remaining values may be needed for durability, such as `min.insync.replicas` for all brokers.
    """
    for layer in (own, defaults):
        for name in tuple(layer):
            text = layer.pop(name)
            try:
                config.with_dynamic(dynamic=own, dynamic_defaults=defaults)
            except ConfigError:
                layer[name] = text
            else:
                return True
    return False


def _check_pool(name: str, before: object, after: object) -> None:
    assert isinstance(before, int)
    assert isinstance(after, int)
    if after != before and not max(before // 2, 1) <= after <= before * 2:
        raise _refused(
            f"{name} cannot change from {before} to {after} at once: at most double and at least half, and never 0, "
            "is allowed."
        )


def _key_of(name: str) -> ConfigKey | None:
    key = BROKER_KEYS.get(name) or OWN_KEYS.get(name)
    if key is None and name.startswith(LISTENER_PREFIX):
        base = BROKER_KEYS.get(name[len(LISTENER_PREFIX) :].partition(".")[2])
        return None if base is None else base._replace(name=name)
    return key


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
