"""Real nodes for real clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla.testing

# Says what differs, as in a test.
pytest.register_assert_rewrite("tests.support.as_kafka")


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[ottla.testing.Cluster]:
    """One node for all tests of a module, which keep to topics of their own."""
    with ottla.testing.cluster() as cluster:
        yield cluster
