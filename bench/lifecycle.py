"""Time from the start to the first acknowledged record, and memory of an idle broker, on fresh brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from bench.cases import Goal, Metrics
from bench.clients import wait_for_first_ack
from bench.measure import cpu_seconds, resident_bytes
from tests.support.brokers import Broker

__all__ = ["GOALS", "GROUP", "NAME", "SECONDS", "measure_lifecycle"]

GROUP = "life of a broker"
NAME = "fresh data directory"
GOALS = {"start to first ack s": Goal(ratio=0.1), "idle RSS MB": Goal(ratio=0.1)}
IDLE_S = 3.0
# Seconds of one life of each broker, for planning.
SECONDS = 15.0


def measure_lifecycle(make: Callable[[Path], Broker], directory: Path) -> Metrics:
    """One life: from the start of the process (storage is formatted before) to its orderly end."""
    broker = make(directory)
    broker.prepare()
    start = time.monotonic()
    with broker:
        wait_for_first_ack(broker.bootstrap, "first")
        first_ack_s = time.monotonic() - start
        start_cpu_s = cpu_seconds(broker.pid)
        time.sleep(IDLE_S)
        idle_cpu_s = cpu_seconds(broker.pid) - start_cpu_s
        memory = resident_bytes(broker.pid)
        start = time.monotonic()
    return {
        "start to first ack s": first_ack_s,
        "CPU s to first ack": start_cpu_s,
        "idle RSS MB": memory / 1e6,
        "idle CPU %": idle_cpu_s / IDLE_S * 100,
        "stop s": time.monotonic() - start,
    }
