"""What a topic's configuration comes to as the controller sees it.

The tables and the layers are `ottla.model.config`'s; here the controller's own configuration is brought up to date
with what the image sets for brokers, and the entries of a topic that sets nothing are kept, since every topic's answer
begins with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from ottla.metadata.image import MetadataImage
from ottla.model.config import TOPIC_KEYS, BrokerConfig
from ottla.model.config.dynamic import usable_dynamic
from ottla.model.config.effective import ConfigSource, EffectiveConfig, describe_topic
from ottla.model.config.keys import format_value

__all__ = ["effective_topic_config", "is_unclean_election_enabled", "min_insync_replicas", "with_dynamic_layers"]


def with_dynamic_layers(config: BrokerConfig, image: MetadataImage) -> BrokerConfig:
    """The node's configuration with what the image sets for it and for all brokers; the same object if unchanged."""
    own, defaults = image.configs.of_broker(config.node_id), image.configs.of_all_brokers()
    if config.dynamic == own and config.dynamic_defaults == defaults:
        return config
    return usable_dynamic(config, dynamic=own, dynamic_defaults=defaults)[0]


def effective_topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> Iterator[EffectiveConfig]:
    """Every public topic key, sorted by name; then internal ones that the topic sets."""
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


# A BrokerConfig is replaced when it changes, so the newest one is the only one that is asked for.
@lru_cache(maxsize=2)
def _topic_entries(config: BrokerConfig) -> tuple[EffectiveConfig, ...]:
    entries = describe_topic(config, {})
    return tuple(sorted(each._replace(source=_source_of_default(config, each.name)) for each in entries))


def _source_of_default(config: BrokerConfig, name: str) -> ConfigSource:
    """Where a default was set, under whichever name: unlike DescribeConfigs, the answer has no place for names."""
    layers = (
        (config.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.dynamic_defaults, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for layer, source in layers:
        if not layer.keys().isdisjoint(TOPIC_KEYS[name].synonyms):
            return source
    return ConfigSource.DEFAULT_CONFIG
