"""Three nodes of Apache Kafka under load move to another cluster by a mirror, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.testing.clusters import cluster
from tests.java.conftest import require_java
from tests.mirror.test_migration import migrated
from tests.support.broker_clusters import KafkaCluster

pytestmark = [pytest.mark.faults, pytest.mark.java]


@pytest.mark.parametrize("offsets", ["exact", "translated"])
def test_three_nodes_move_under_load_and_back(tmp_path: Path, offsets: str) -> None:
    require_java()
    source = KafkaCluster(tmp_path / "kafka", heap="384M").start()
    try:
        with cluster() as target:
            migrated(source, target, tmp_path, ottla_offsets=offsets)
    finally:
        source.stop()
