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
    """On a cluster of our own, or on the one that OTTLA_TEST_BOOTSTRAP names: Apache Kafka must give the same."""
    bootstrap = os.environ.get("OTTLA_TEST_BOOTSTRAP") or request.getfixturevalue("spark_cluster").bootstrap
    found = Topics(bootstrap)
    yield found
    found.close()
