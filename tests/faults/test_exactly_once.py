"""Kafka's TransactionalMessageCopier in three copies on three nodes: copies and nodes are killed at random."""

from __future__ import annotations

import time
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
from tests.support.java import unavailable_reason

PARTITIONS = 3
SEED = 20_261_115


class Killer:
    """Kills one node after the other, and starts it again a few seconds later."""

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
            # The first node has the controller: that is another test's matter.
            self._down = self._random.choice([2, 3])
            self._cluster.node(self._down).kill()
            self.kills += 1
            self._next = time.monotonic() + self._random.uniform(1, 5)

    def end(self) -> None:
        if self._down:
            self._cluster.node(self._down).start()


def kinds() -> dict[str, Command]:
    return {
        "librdkafka": librdkafka_copier(20),
        "java": java_copier(20, group_mode=False),
        "java-in-a-group": java_copier(20, group_mode=True),
    }


@pytest.mark.faults
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", ["librdkafka", "java", "java-in-a-group"])
def test_copies_are_exact_through_kills(kind: str, faults_seconds: float) -> None:
    if reason := unavailable_reason():
        pytest.skip(reason)
    random = Random(SEED)
    records = int(150 * faults_seconds)
    with ottla.testing.cluster(nodes=3, settings=CLUSTER_SETTINGS) as cluster:
        prepare(cluster.bootstrap, partitions=PARTITIONS, replicas=3)
        fill(cluster.bootstrap, partitions=PARTITIONS, records=records)
        killer = Killer(cluster, random)
        kills = check_copies(
            lambda: cluster.bootstrap,
            kinds()[kind],
            partitions=PARTITIONS,
            records=records,
            seconds=faults_seconds,
            random=random,
            disturb=killer,
            calm=killer.end,
            pause_seconds=(1.0, 4.0),
            patience_seconds=300,
        )
        assert kills >= 3
        assert killer.kills >= 1
