"""Counts of replication: sums that never go down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.replica.statistics import Departed

COUNTS = (
    "bytes_in",
    "bytes_out",
    "failed_fetches",
    "failed_produces",
    "duplicates",
    "fetches",
    "messages_in",
    "produces",
    "replica_bytes_in",
    "replica_bytes_out",
)


def test_what_a_partition_has_counted_stays_when_it_leaves() -> None:
    departed = Departed()
    for factor in (1, 10):
        partition: Any = SimpleNamespace(**{name: factor * number for number, name in enumerate(COUNTS, start=1)})
        departed.add(partition)
    assert [getattr(departed, name) for name in COUNTS] == [11 * number for number, _ in enumerate(COUNTS, start=1)]
    assert set(Departed.__slots__) == set(COUNTS)
