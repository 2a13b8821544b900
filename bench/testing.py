"""How long a test waits for its cluster: from the call of `ottla.testing.cluster()` to the first acknowledged record.

No test asserts this, because machines that run tests are busy. The allowed time is in Apache Kafka's column.
"""

from __future__ import annotations

import time
from pathlib import Path

import ottla.testing
from bench.cases import Goal, Metrics
from bench.clients import wait_for_first_ack
from bench.lifecycle import GROUP
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result

__all__ = ["BUDGET", "NAME", "SPECIALS", "measure_testing"]

NAME = "ottla.testing.cluster(), beside what it may take"
FIRST_ACK = "call to first ack s"
BUDGET = {FIRST_ACK: 0.5}
# Clusters per run; each takes a fraction of a second.
LIVES = 3


def measure_testing(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    lives = [_life() for _ in range(runs * LIVES)]
    return as_result(GROUP, NAME, {FIRST_ACK: Goal(ratio=1.0)}, {PEER: [dict(BUDGET) for _ in lives], OURS: lives})


def _life() -> Metrics:
    called = time.monotonic()
    with ottla.testing.cluster() as cluster:
        wait_for_first_ack(cluster.bootstrap, "first")
        return {FIRST_ACK: time.monotonic() - called}


SPECIALS: tuple[Special, ...] = ((f"{GROUP}: {NAME}", 2.0, measure_testing),)
