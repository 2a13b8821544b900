"""Consume, transform, produce: copies in transactions, with processes killed on the way."""

from __future__ import annotations

from random import Random

import ottla.testing
from tests.support.copiers import check_copies, fill, librdkafka_copier, prepare


def test_copiers_are_killed_and_every_record_is_copied_once() -> None:
    with ottla.testing.cluster() as cluster:
        prepare(cluster.bootstrap, partitions=3, replicas=1)
        fill(cluster.bootstrap, partitions=3, records=150)
        kills = check_copies(
            lambda: cluster.bootstrap,
            librdkafka_copier(10),
            partitions=3,
            records=150,
            seconds=3,
            kills_min=3,
            random=Random(1),
            pause_seconds=(0.2, 0.5),
        )
        assert kills >= 3
