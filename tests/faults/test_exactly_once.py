"""Kafka's TransactionalMessageCopier in three copies on three nodes: copies and nodes are killed at random."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

import ottla.testing
from ottla.testing import Cluster
from tests.support.copiers import (
    CLUSTER_SETTINGS,
    Command,
    check_copies,
    fill,
    java_copier,
    librdkafka_copier,
    prepare,
)
from tests.support.fault_workload import controller_of
from tests.support.java import unavailable_reason
from tests.support.kept_logs import keep_logs

PARTITIONS = 3
# Enough for copying to go on for as long as nodes are killed.
RECORDS_PER_SECOND = 150


class Killer:
    """Kills one node after the other, and starts it again a few seconds later; every third is the active controller."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._down = 0
        self._next = time.monotonic() + 5
        self.kills = 0

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        if self._down:
            self._cluster.node(self._down).start()
            self._down = 0
            self._next = time.monotonic() + self._random.uniform(6, 10)
        else:
            self._down = controller_of(self._cluster)[0] if self.kills % 3 == 0 else self._random.choice([1, 2, 3])
            self._cluster.node(self._down).kill()
            self.kills += 1
            self._next = time.monotonic() + self._random.uniform(1, 5)

    def end(self) -> None:
        if self._down:
            self._cluster.node(self._down).start()
            self._down = 0


def kinds() -> dict[str, Command]:
    return {
        "librdkafka": librdkafka_copier(20),
        "java": java_copier(20, group_mode=False),
        "java-in-a-group": java_copier(20, group_mode=True),
    }


@pytest.mark.faults
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", ["librdkafka", "java", "java-in-a-group"])
def test_copies_are_exact_through_kills(
    kind: str, exactly_once_seconds: float, faults_seed: int, tmp_path: Path
) -> None:
    if reason := unavailable_reason():
        pytest.skip(reason)
    random = Random(faults_seed)
    records = int(RECORDS_PER_SECOND * exactly_once_seconds)
    with (
        ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster,
        keep_logs(cluster, tmp_path / "logs"),
    ):
        prepare(cluster.bootstrap, partitions=PARTITIONS, replicas=3)
        fill(cluster.bootstrap, partitions=PARTITIONS, records=records)
        killer = Killer(cluster, random)
        kills = check_copies(
            lambda: cluster.bootstrap,
            kinds()[kind],
            partitions=PARTITIONS,
            records=records,
            seconds=exactly_once_seconds,
            random=random,
            disturb=killer,
            calm=killer.end,
            pause_seconds=(1.0, 4.0),
            patience_seconds=300,
            output_file=tmp_path / "copiers.log",
            in_group=kind == "java-in-a-group",
        )
        assert kills >= 3
        assert killer.kills >= 1
