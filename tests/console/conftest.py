"""A node and a console for all tests of a module, which keep to topics of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import ottla.testing
from tests.support.brokers import QuickKafka
from tests.support.consoles import Browser, ConsoleProcess, console_process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.testing.Cluster | QuickKafka]:
    """A node of Ottla, or of Apache Kafka with `BROKER=kafka`."""
    if os.environ.get("BROKER") == "kafka":
        with QuickKafka(tmp_path_factory.mktemp("kafka"), {"group.initial.rebalance.delay.ms": "0"}) as broker:
            yield broker
    else:
        with ottla.testing.cluster() as running:
            yield running


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster) -> Iterator[ConsoleProcess]:
    with console_process(cluster.bootstrap) as running:
        yield running


@pytest.fixture
def browser(console: ConsoleProcess) -> Browser:
    return console.browser()
