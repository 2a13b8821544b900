"""Every test gets a broker's data path in a separate directory, in memory if a tmpfs exists."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest

from tests.support.data_path import DataPath
from tests.support.replica_cluster import ReplicaCluster

_MEMORY = "/dev/shm"


@pytest.fixture
def log_directory() -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="ottla-test-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def node(log_directory: str) -> Iterator[DataPath]:
    path = DataPath(log_directory)
    yield path
    path.stop()


@pytest.fixture
def make(log_directory: str) -> Iterator[Callable[..., ReplicaCluster]]:
    clusters: list[ReplicaCluster] = []

    def make_cluster(*, nodes: tuple[int, ...] = (1, 2), **properties: str) -> ReplicaCluster:
        clusters.append(ReplicaCluster(log_directory, nodes=nodes, **properties))
        return clusters[-1]

    yield make_cluster
    for cluster in clusters:
        cluster.end()


@pytest.fixture
def pair(make: Callable[..., ReplicaCluster]) -> ReplicaCluster:
    """Two brokers; the first leads what `create_topic` creates."""
    return make()
