"""What a topic's configuration comes to, key by key, and where each value comes from.

A topic's own value wins; then the broker keys it stands for are asked in turn, each first as set for this node at run
time, then as set for all nodes, then in the node's properties file; then the default holds (KIP-226, KIP-569).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.metadata.image import MetadataImage
from ottla.model.config import TOPIC_KEYS, BrokerConfig, ConfigKey
from ottla.model.config.keys import REQUIRED, format_value

__all__ = ["ConfigSource", "EffectiveEntry", "effective_topic_config", "effective_topic_value"]


class ConfigSource(IntEnum):
    """Where a value comes from, with the protocol's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class EffectiveEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool


def effective_topic_config(
    config: BrokerConfig, image: MetadataImage, overrides: Mapping[str, str]
) -> Iterator[EffectiveEntry]:
    """Every public topic key, sorted by name."""
    for name in _PUBLIC_TOPIC_KEYS:
        key = TOPIC_KEYS[name]
        value, source = effective_topic_value(key, config, image, overrides)
        yield EffectiveEntry(name, value, source, key.is_sensitive, False)


def effective_topic_value(
    key: ConfigKey, config: BrokerConfig, image: MetadataImage, overrides: Mapping[str, str]
) -> tuple[str | None, ConfigSource]:
    own = overrides.get(key.name)
    if own is not None:
        return own, ConfigSource.TOPIC
    layers = (
        (image.configs.of_broker(config.node_id), ConfigSource.DYNAMIC_BROKER),
        (image.configs.of_all_brokers(), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (config.static, ConfigSource.STATIC_BROKER),
    )
    for synonym in key.synonyms:
        for values, source in layers:
            text = values.get(synonym)
            if text is not None:
                return _in_topic_unit(synonym, text), source
    assert key.default is not REQUIRED
    return format_value(key.default), ConfigSource.DEFAULT  # type: ignore[arg-type]


_PUBLIC_TOPIC_KEYS = sorted(name for name, key in TOPIC_KEYS.items() if not key.internal)
_UNITS_MS = {".hours": 3_600_000, ".minutes": 60_000}


def _in_topic_unit(synonym: str, text: str) -> str:
    """Topic keys count milliseconds where some broker keys count minutes or hours."""
    for suffix, factor in _UNITS_MS.items():
        if synonym.endswith(suffix):
            return str(int(text) * factor)
    return text
