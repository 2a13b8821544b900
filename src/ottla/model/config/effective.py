"""The content of DescribeConfigs: for each key its effective value, the source of the value, and its synonyms.

A key's value is looked up in layers, and every layer that has it becomes a synonym, in the order of precedence: the
resource's own settings, this node's dynamic values, the cluster's dynamic defaults, the properties file, the default
(KIP-226). For a broker key that other keys can replace (`log.retention.hours` for `log.retention.ms`), these are listed
too, but only after the key itself, so that the list begins with the requested key, as in Apache Kafka.

The functions are pure and use only the tables; they are independent of messages and of the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.model.config.broker_config import BrokerConfig
from ottla.model.config.broker_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, STAND_INS
from ottla.model.config.keys import ConfigError, ConfigKey
from ottla.model.config.listener_keys import LISTENER_PREFIX
from ottla.model.config.log_config import topic_defaults
from ottla.model.config.own_keys import OWN_KEYS
from ottla.model.config.resource_keys import CLIENT_METRICS_KEYS, GROUP_KEYS
from ottla.model.config.topic_keys import TOPIC_KEYS
from ottla.model.config.values import REQUIRED, Setting, format_value

__all__ = [
    "ConfigSource",
    "ConfigSynonym",
    "EffectiveConfig",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster_defaults",
    "describe_group",
    "describe_logger",
    "describe_topic",
    "is_secret_of_broker",
]

UNKNOWN_TYPE = 0


class ConfigSource(IntEnum):
    """The numbers of the protocol."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class EffectiveConfig(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    # A ConfigType, or 0 for an unknown key.
    type: int
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[EffectiveConfig]:
    """All topic keys; internal keys only if the topic sets them."""
    defaults = topic_defaults(config)
    for name, key in TOPIC_KEYS.items():
        if key.internal and name not in overrides:
            continue
        synonyms = _broker_synonyms(config, key.synonyms[0]) if key.synonyms else ()
        if name in overrides:
            value = _stored(key, overrides[name])
            own = ConfigSynonym(name, format_value(value), ConfigSource.DYNAMIC_TOPIC_CONFIG)
            yield _without_hidden(config, _described(key, value, (own, *synonyms), is_read_only=False))
        else:
            yield _without_hidden(config, _described(key, defaults[name], synonyms, is_read_only=False))


def describe_broker(config: BrokerConfig) -> Iterator[EffectiveConfig]:
    """All broker keys that are not internal. Unknown keys and Ottla's own keys only if they are set."""
    layers = (config.dynamic, config.dynamic_defaults, config.static)
    for name, key in BROKER_KEYS.items():
        is_set = any(name in layer for layer in layers)
        if not is_set and (key.internal or name in DYNAMIC_ONLY_KEYS):
            continue
        entry = _described(key, config.get(name), _broker_synonyms(config, name), is_read_only=key.is_read_only)
        entry = _without_hidden(config, entry)
        yield entry._replace(documentation=None) if name in DYNAMIC_ONLY_KEYS else entry
    for name in dict.fromkeys(name for layer in layers for name in layer if name not in BROKER_KEYS):
        yield _without_hidden(config, _described_unknown(config, name))


def describe_cluster_defaults(dynamic_defaults: Mapping[str, str]) -> Iterator[EffectiveConfig]:
    """The resource of type broker with an empty name: the values that are set for all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, text in dynamic_defaults.items():
        key = BROKER_KEYS.get(name) or OWN_KEYS.get(name)
        if key is None:
            yield EffectiveConfig(
                name, None, source, True, True, UNKNOWN_TYPE, None, (ConfigSynonym(name, None, source),)
            )
            continue
        synonym = ConfigSynonym(name, None if key.is_sensitive else text, source)
        entry = _described(key, key.parse(text), (synonym,), is_read_only=key.is_read_only)
        yield entry._replace(documentation=None) if name in DYNAMIC_ONLY_KEYS else entry


def describe_group(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[EffectiveConfig]:
    for name, key in GROUP_KEYS.items():
        if key.synonyms:
            inherited = _broker_synonyms(config, key.synonyms[0])
            value = config.get(key.synonyms[0])
        else:
            value = _default_of(key)
            inherited = (ConfigSynonym(name, format_value(value), ConfigSource.DEFAULT_CONFIG),)
        if name in overrides:
            value = key.parse(overrides[name])
            own = ConfigSynonym(name, overrides[name], ConfigSource.DYNAMIC_GROUP_CONFIG)
            inherited = (own, *inherited)
        yield _without_hidden(config, _described(key, value, inherited, is_read_only=False))


def describe_client_metrics(overrides: Mapping[str, str]) -> Iterator[EffectiveConfig]:
    for name, key in CLIENT_METRICS_KEYS.items():
        value = key.parse(overrides[name]) if name in overrides else _default_of(key)
        own = ConfigSynonym(name, overrides.get(name), ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
        yield _described(key, value, (own,) if name in overrides else (), is_read_only=False)


def describe_logger(name: str, level: str) -> EffectiveConfig:
    return EffectiveConfig(name, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, UNKNOWN_TYPE, "", ())


def _described(
    key: ConfigKey, value: Setting, synonyms: tuple[ConfigSynonym, ...], *, is_read_only: bool
) -> EffectiveConfig:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return EffectiveConfig(
        key.name,
        format_value(value),
        source,
        is_read_only,
        key.is_sensitive,
        int(key.type),
        key.documentation,
        synonyms,
    )


def _without_hidden(config: BrokerConfig, entry: EffectiveConfig) -> EffectiveConfig:
    """The entry of a key whose value in the properties file is a reference: the resolved value is not shown."""
    if config.hidden.isdisjoint(synonym.name for synonym in entry.synonyms):
        return entry
    is_hidden = [
        synonym.source is ConfigSource.STATIC_BROKER_CONFIG and synonym.name in config.hidden
        for synonym in entry.synonyms
    ]
    synonyms = tuple(
        synonym._replace(value=None) if hides else synonym
        for synonym, hides in zip(entry.synonyms, is_hidden, strict=True)
    )
    if is_hidden[0]:
        return entry._replace(value=None, is_sensitive=True, synonyms=synonyms)
    return entry._replace(synonyms=synonyms)


def _described_unknown(config: BrokerConfig, name: str) -> EffectiveConfig:
    """A key that Kafka does not have. The value of an unknown key is not shown: it may be the secret of a plug-in."""
    own = OWN_KEYS.get(name)
    base = own or BROKER_KEYS.get(_without_listener(name))
    is_sensitive = base is None or base.is_sensitive
    synonyms = _broker_synonyms(config, name, is_sensitive=is_sensitive)
    value = None if is_sensitive else synonyms[0].value
    kind = UNKNOWN_TYPE if base is None else int(base.type)
    is_read_only = own is None or own.is_read_only
    return EffectiveConfig(name, value, synonyms[0].source, is_read_only, is_sensitive, kind, None, synonyms)


def is_secret_of_broker(name: str) -> bool:
    """True if the value of a broker's key must not be shown: it is a password, or the key is unknown."""
    key = BROKER_KEYS.get(name) or OWN_KEYS.get(name) or BROKER_KEYS.get(_without_listener(name))
    return key is None or key.is_sensitive


def _broker_synonyms(config: BrokerConfig, name: str, *, is_sensitive: bool | None = None) -> tuple[ConfigSynonym, ...]:
    names = STAND_INS.get(name, (name,))
    base = _without_listener(name)
    if base != name:
        names = (name, base)
    if is_sensitive is None:
        is_sensitive = BROKER_KEYS[name].is_sensitive
    synonyms = [
        ConfigSynonym(other, None if is_sensitive else text, source)
        for layer, source in _layers(config)
        for other in names
        if (text := layer.get(other)) is not None
    ]
    synonyms.extend(
        ConfigSynonym(other, None if is_sensitive else text, ConfigSource.DEFAULT_CONFIG)
        for other in names
        if other in BROKER_KEYS and (text := format_value(_default_of(BROKER_KEYS[other]))) is not None
    )
    while synonyms and synonyms[0].name != name:
        del synonyms[0]
    return tuple(synonyms)


def _layers(config: BrokerConfig) -> Iterator[tuple[Mapping[str, str], ConfigSource]]:
    yield config.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG
    yield config.dynamic_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    yield config.static, ConfigSource.STATIC_BROKER_CONFIG


def _stored(key: ConfigKey, text: str) -> Setting:
    """The text of a value that was set, unchanged if this release cannot parse it."""
    try:
        return key.parse(text)
    except ConfigError:
        return text


def _default_of(key: ConfigKey) -> Setting:
    return None if key.default is REQUIRED else key.default  # type: ignore[return-value]


def _without_listener(name: str) -> str:
    return name[len(LISTENER_PREFIX) :].partition(".")[2] if name.startswith(LISTENER_PREFIX) else name
