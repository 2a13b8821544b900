"""The effective configuration of topics and of this node, as the controller computes it.

`ottla.model.config` has the tables and the layers. This module adds the dynamic values of the image to the
configuration of the controller. It caches the entries of a topic without overrides, because every response to
CreateTopics starts with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ottla.metadata.image import MetadataImage
from ottla.model.config import TOPIC_KEYS, BrokerConfig
from ottla.model.config.dynamic import usable_dynamic
from ottla.model.config.effective import ConfigSource, EffectiveConfig, describe_topic
from ottla.model.config.values import format_value

__all__ = ["effective_topic_config", "is_unclean_election_enabled", "min_insync_replicas", "with_dynamic_layers"]


def with_dynamic_layers(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """The configuration with the dynamic values of this node and of all brokers; the same object if unchanged."""
    own, defaults = image.configs.of_broker(config.node_id), image.configs.of_all_brokers()
    if config.dynamic == own and config.dynamic_defaults == defaults:
        return config
    return usable_dynamic(config, dynamic=own, dynamic_defaults=defaults)[0]


def effective_topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[EffectiveConfig]:
    """All public topic keys, sorted by name, then the internal keys that the topic sets."""
    for entry in _topic_entries(config):
        own = overrides.get(entry.name)
        if own is None:
            yield entry
        else:
            value = format_value(TOPIC_KEYS[entry.name].parse(own))
            yield entry._replace(value=value, source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
    if any(TOPIC_KEYS[name].internal for name in overrides):
        yield from (entry for entry in describe_topic(config, overrides) if TOPIC_KEYS[entry.name].internal)


def min_insync_replicas(config: BrokerConfig, overrides: Mapping[str, str]) -> int:
    own = overrides.get("min.insync.replicas")
    return config.min_insync_replicas if own is None else int(own)


def is_unclean_election_enabled(config: BrokerConfig, overrides: Mapping[str, str]) -> bool:
    own = overrides.get("unclean.leader.election.enable")
    return config.unclean_leader_election_enable if own is None else own.strip().lower() == "true"


# A BrokerConfig is replaced when it changes, so a cache of one entry is enough.
@lru_cache(maxsize=2)
def _topic_entries(config: BrokerConfig) -> tuple[EffectiveConfig, ...]:
    entries = describe_topic(config, {})
    return tuple(sorted(entry._replace(source=_source_of_default(config, entry.name)) for entry in entries))


def _source_of_default(config: BrokerConfig, name: str) -> ConfigSource:
    """The source of a default. Unlike DescribeConfigs, the response has no field for the name of the key."""
    layers = (
        (config.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.dynamic_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for layer, source in layers:
        if not layer.keys().isdisjoint(TOPIC_KEYS[name].synonyms):
            return source
    return ConfigSource.DEFAULT_CONFIG
