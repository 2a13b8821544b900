"""`python -m bench.balance`: how long producers wait while a broker of five is emptied and filled again.

The goal is that the 99th percentile of a send is at most twice what it was before. The machine has to be idle. Options:
bytes of a partition, and bytes per second of the throttle.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import ottla.testing
from tests.support.balance_under_load import PacedProducer, create_filled_topic, drain_and_refill

__all__ = ["main"]

NODES = 5
PARTITIONS = 20
PARTITION_BYTES = 40_000_000
THROTTLE = 5_000_000
USUAL_SECONDS = 20.0
RATIO_MAX = 2.0


def main(arguments: list[str]) -> int:
    partition_bytes, throttle = [*map(int, arguments), *(PARTITION_BYTES, THROTTLE)[len(arguments) :]]
    with ottla.testing.cluster(nodes=NODES) as cluster, tempfile.TemporaryDirectory() as directory:
        create_filled_topic(cluster.bootstrap, "big", PARTITIONS, partition_bytes)
        with PacedProducer(cluster.bootstrap, "big", PARTITIONS) as producer:
            figures = drain_and_refill(
                cluster, producer, Path(directory), broker_id=NODES, throttle=throttle, seconds=USUAL_SECONDS
            )
    ratio = figures.ratio
    print(figures)
    print(f"p99 {ratio:.2f} x, at most {RATIO_MAX:.0f} x {'is' if ratio <= RATIO_MAX else 'was'} the goal")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
