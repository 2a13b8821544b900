"""Real nodes for real clients."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import ottla.testing
from tests.support.brokers import QuickKafka

# Failed assertions in this helper show the difference, as in a test.
pytest.register_assert_rewrite("tests.support.as_kafka")


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[ottla.testing.Cluster]:
    """One node for all tests of a module; every test uses its own topics."""
    with ottla.testing.cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one broker for tests of `ottla.client`: Ottla, or Apache Kafka with `BROKER=kafka`."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.heartbeat.interval.ms": "200",
    }
    if os.environ.get("BROKER") == "kafka":
        with QuickKafka(tmp_path_factory.mktemp("kafka"), settings) as broker:
            yield broker.bootstrap
    else:
        with ottla.testing.cluster(settings=settings) as running:
            yield running.bootstrap
