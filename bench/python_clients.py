"""Python clients beside each other: the same work against the same Ottla node, each run in a process of its own.

The other client is in Apache Kafka's column. Record by record `ottla.client` has aiokafka and kafka-python beside it;
with columns it has confluent-kafka beside it, which has no columns.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import ottla.testing
from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.python_client_run import CPU, LATENCY, PARTITIONS, RATE
from bench.runner import OURS, PEER, Result, alternating, as_result
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin

__all__ = ["GROUP", "SPECIALS"]

GROUP = "Python clients"
TIMEOUT_S = 120
# Three times as fast, and a third of the CPU time.
THREEFOLD = {RATE: Goal(ratio=3.0, at_most=False), CPU: Goal(ratio=1 / 3)}
EQUAL = {RATE: Goal(ratio=1.0, at_most=False), CPU: Goal(ratio=1.0)}
NO_SLOWER = {metric: Goal(ratio=1.0) for metric in LATENCY}
SIZES = (100, 1024)

_numbers = itertools.count()


def _compare(name: str, goals: dict[str, Goal], clients: dict[str, str], work: str, size: int, runs: int) -> Result:
    rounds: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster() as cluster:
        for number in range(runs):
            for side in alternating([PEER, OURS], number):
                rounds[side].append(_run(cluster.bootstrap, clients[side], work, size))
    return as_result(GROUP, name, goals, rounds)


def _run(bootstrap: str, client: str, work: str, size: int) -> Metrics:
    topic = f"topic-{next(_numbers)}"
    with BlockingAdmin({"bootstrap.servers": bootstrap}) as admin:
        admin.topics.create([NewTopic(name=topic, partitions=PARTITIONS, replication_factor=1)])
    if work == "consume":
        _call("ottla-columns", "produce", bootstrap, topic, size)
    return _call(client, work, bootstrap, topic, size)


def _call(client: str, work: str, bootstrap: str, topic: str, size: int) -> Metrics:
    command = [sys.executable, "-m", "bench.python_client_run", client, work, bootstrap, topic, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    figures: Metrics = json.loads(done.stdout)
    return figures


def _special(ours: str, peer: str, work: str, size: int, goals: dict[str, Goal]) -> Special:
    name = f"{work} {size} B, {ours} beside {peer}"

    def measure(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
        return _compare(name, goals, {PEER: peer, OURS: ours}, work, size, runs)

    return (f"{GROUP}: {name}", 15.0, measure)


SPECIALS: tuple[Special, ...] = (
    *(
        _special("ottla", peer, work, size, THREEFOLD)
        for peer in ("aiokafka", "kafka-python")
        for work in ("produce", "consume")
        for size in SIZES
    ),
    *(
        _special("ottla-columns", "confluent-kafka", work, size, EQUAL)
        for work in ("produce", "consume")
        for size in SIZES
    ),
    _special("ottla", "aiokafka", "latency", 100, NO_SLOWER),
)
