"""A node and a console for all tests of a module, which keep to topics of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla.testing
from tests.support.consoles import Browser, ConsoleProcess, console_process


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster() as running:
        yield running


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster) -> Iterator[ConsoleProcess]:
    with console_process(cluster.bootstrap) as running:
        yield running


@pytest.fixture
def browser(console: ConsoleProcess) -> Browser:
    return console.browser()
