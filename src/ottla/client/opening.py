"""The settings of clients: typed, or a dictionary with Kafka's configuration keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings

__all__ = ["Opened", "opened"]

T = TypeVar("T")


class Opened(NamedTuple, Generic[T]):
    settings: T
    cluster: Cluster
    # True if the client closes the cluster's connections with itself.
    owned: bool
    # The dictionary, for plug-ins; empty with typed settings.
    config: Mapping[str, Any]


def opened(
    settings: ClientSettings | Cluster | Mapping[str, Any],
    typed: T | None,
    *,
    default: Callable[[], T],
    read: Callable[[Mapping[str, Any]], tuple[ClientSettings, T]],
) -> Opened[T]:
    """Typed settings win over those of the dictionary. `read` raises ConfigurationError."""
    config: Mapping[str, Any] = {}
    if isinstance(settings, Mapping):
        config = settings
        settings, configured = read(config)
        typed = typed or configured
    if isinstance(settings, ClientSettings):
        return Opened(typed or default(), Cluster(settings), True, config)
    return Opened(typed or default(), settings, False, config)
