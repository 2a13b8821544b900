"""Counters of partitions: sums that never decrease."""

from __future__ import annotations

from ottla.replica.counters import PartitionCounters


def test_the_counters_of_a_partition_that_leaves_stay_in_the_sum() -> None:
    departed = PartitionCounters()
    for factor in (1, 10):
        counters = PartitionCounters()
        for number, name in enumerate(PartitionCounters.__slots__, start=1):
            setattr(counters, name, factor * number)
        departed.add(counters)
    sums = [getattr(departed, name) for name in PartitionCounters.__slots__]
    assert sums == [11 * number for number, _ in enumerate(PartitionCounters.__slots__, start=1)]
