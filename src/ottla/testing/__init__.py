"""A real cluster for tests, in well under a second. See README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.clusters import Cluster, ClusterFailed, Node, cluster

__all__ = ["Cluster", "ClusterFailed", "Node", "cluster"]


def __getattr__(name: str) -> Any:
    """Loads the rest on first use: pytest imports this package in every project where Ottla is installed."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.testing import clusters

    return getattr(clusters, name)
