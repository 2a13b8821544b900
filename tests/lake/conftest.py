"""One cluster for all tests of lake tables, a client of it, and a registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import cluster
from tests.support.registries import RegistryProcess, registry_process
from tests.support.spark_topics import Topics


@pytest.fixture(scope="session")
def topics() -> Iterator[Topics]:
    with cluster() as running:
        client = Topics(running.bootstrap)
        yield client
        client.close()


@pytest.fixture(scope="session")
def registry(topics: Topics) -> Iterator[RegistryProcess]:
    with registry_process(topics.bootstrap) as process:
        yield process
