"""Shared by the cases on Spark: a topic, a process for each case, alternating runs, the CPU time of Spark.

A case runs as `python -m bench.MODULE RUNS`, so that Spark ends with the process, and prints its figures. The CPU time
is that of the JVM and all Python processes, ended ones included, without the node. The first runs of each kind warm up
the JVM and the workers and do not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from confluent_kafka import Producer

from bench.cases import Goal, Metrics
from bench.runner import CaseFailedError, Result, alternating, as_result

__all__ = ["PARTITIONS", "RECORDS", "TOPIC", "Spent", "alternated", "cpu_seconds", "fill", "measured_alone"]

TOPIC = "bench"
RECORDS = 1_000_000
PARTITIONS = 2
WARM_UP_RUNS = 2
SECONDS_MAX = 600

Spent = tuple[float, float]
"""The CPU seconds of Spark, and the seconds."""


def measured_alone(
    title: str, module: str, goals: Mapping[str, Goal], *, package: Path, runs: int, seconds_max: float = SECONDS_MAX
) -> Result:
    """Runs the case of the module in a process of its own."""
    command = [sys.executable, "-m", f"bench.{module}", str(runs)]
    # A copy of the package, so that its sources may change during the run.
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds_max, check=False)
    if done.returncode != 0:
        raise CaseFailedError(done.stderr[-1000:])
    group, _, name = title.partition(": ")
    return as_result(group, name, goals, json.loads(done.stdout.splitlines()[-1]))


def alternated(
    runs: int, works: Mapping[str, Callable[[int], object]], metrics: Callable[[Spent], Metrics], *, node_pid: int
) -> dict[str, list[Metrics]]:
    """The figures of each kind of work, which gets the number of the run."""
    measured: dict[str, list[Metrics]] = {side: [] for side in works}
    for number in range(WARM_UP_RUNS + runs):
        for side in alternating(list(works), number):
            begun, before = time.monotonic(), cpu_seconds(node_pid)
            works[side](number)
            spent = cpu_seconds(node_pid) - before, time.monotonic() - begun
            if number >= WARM_UP_RUNS:
                measured[side].append(metrics(spent))
    return measured


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": 1000})
    value = os.urandom(100)
    for number in range(RECORDS):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    assert producer.flush(60) == 0


def cpu_seconds(node_pid: int) -> float:
    """CPU time of this process and its descendants, ended ones included, without the node."""
    total = 0.0
    own_process = psutil.Process()
    for process in [own_process, *own_process.children(recursive=True)]:
        try:
            if process.pid != node_pid:
                total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total
