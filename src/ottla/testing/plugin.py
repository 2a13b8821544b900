"""The pytest plugin: a fixture `ottla_cluster` for every project that has Ottla installed.

Importing it costs next to nothing, since pytest does so in every project: the cluster's code is imported when a test
asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.clusters import Cluster

__all__ = ["ottla_cluster"]


@pytest.fixture
def ottla_cluster() -> Iterator[Cluster]:
    """A fresh cluster of one node; `ottla_cluster.bootstrap` is what clients connect to."""
    from ottla.testing.clusters import cluster

    with cluster() as running:
        yield running
