"""Subscriptions to metrics of clients: resources of type client-metrics (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from ottla.metadata.image import ConfigsImage, ResourceType
from ottla.model.config.resource_keys import CLIENT_METRICS_KEYS
from ottla.model.ids import Uuid

__all__ = ["ClientAttributes", "Subscriptions", "Target"]

DEFAULT_INTERVAL_MS = 300_000
ALL_METRICS = "*"


class ClientAttributes(NamedTuple):
    """The attributes of a client that subscriptions match, by the names of their patterns."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Target(NamedTuple):
    """The metrics and the interval that one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int

    def id_for(self, instance_id: Uuid) -> int:
        """Changes with the target, and differs between clients."""
        text = "\0".join((*self.metrics, str(self.interval_ms))).encode()
        number = crc32(instance_id.bytes, crc32(text))
        return number - (1 << 32) if number >= 1 << 31 else number


class _Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def matches(self, client: ClientAttributes) -> bool:
        return all(pattern.fullmatch(getattr(client, name)) for name, pattern in self.patterns)


class Subscriptions:
    """The subscriptions of an image of the configurations, compiled once."""

    def __init__(self, configs: ConfigsImage) -> None:
        self.configs = configs
        self._all = [
            _compiled(overrides)
            for resource, overrides in configs.by_resource.items()
            if resource.type == ResourceType.CLIENT_METRICS
        ]

    def target(self, client: ClientAttributes) -> Target:
        """The metrics of all matching subscriptions, at the shortest of their intervals."""
        matching = [subscription for subscription in self._all if subscription.metrics and subscription.matches(client)]
        metrics = {name for subscription in matching for name in subscription.metrics}
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS}
        return Target(
            tuple(sorted(metrics)),
            min((subscription.interval_ms for subscription in matching), default=DEFAULT_INTERVAL_MS),
        )


def _compiled(overrides: Mapping[str, str]) -> _Subscription:
    values = {name: key.parse(overrides[name]) for name, key in CLIENT_METRICS_KEYS.items() if name in overrides}
    interval, metrics, match = values.get("interval.ms"), values.get("metrics", ()), values.get("match", ())
    assert isinstance(metrics, tuple)
    assert isinstance(match, tuple)
    pairs = [entry.partition("=") for entry in match]
    return _Subscription(
        metrics,
        interval if isinstance(interval, int) else DEFAULT_INTERVAL_MS,
        tuple((name.strip(), re.compile(pattern.strip())) for name, _, pattern in pairs),
    )
