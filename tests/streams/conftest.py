"""The cluster that the tests of running applications in one module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import cluster
from tests.streams.live import Live


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with cluster() as running:
        live_cluster = Live(running.bootstrap)
        yield live_cluster
        live_cluster.close()
