"""The listeners and supported features in the registration of a broker or a controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.broker.context import ListenerInfo
from ottla.broker.metadata_source import SECURITY_PROTOCOL_NUMBERS
from ottla.metadata.versions import supported_features

__all__ = ["registered_features", "registered_listeners"]

T = TypeVar("T")


def registered_listeners(listeners: Sequence[ListenerInfo], listener_class: Callable[..., T]) -> list[T]:
    """`listener_class` is the listener structure of the request. Both requests have the same fields."""
    return [
        listener_class(
            name=listener.name,
            host=listener.advertised_host,
            port=listener.advertised_port,
            security_protocol=SECURITY_PROTOCOL_NUMBERS[listener.security_protocol],
        )
        for listener in listeners
    ]


def registered_features(feature_class: Callable[..., T], *, unstable: bool) -> list[T]:
    return [
        feature_class(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in supported_features(unstable=unstable).items()
    ]
