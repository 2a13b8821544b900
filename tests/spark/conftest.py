"""One cluster for all tests of Spark, and a client of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.testing import cluster
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from ottla.testing import Cluster


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def topics(request: pytest.FixtureRequest) -> Iterator[Topics]:
    """Topics on our own cluster, or on that of OTTLA_TEST_BOOTSTRAP: Apache Kafka must give the same results."""
    bootstrap = os.environ.get("OTTLA_TEST_BOOTSTRAP") or request.getfixturevalue("spark_cluster").bootstrap
    client = Topics(bootstrap)
    yield client
    client.close()
