"""`python -m bench.scale 1000 5000 20000 50000`: what partitions cost one node; the numbers of docs/scale.md.

`make bench` compares 50,000 partitions with what they may take, which is in Apache Kafka's column.

For each count a fresh node: topics with this many partitions are created while another connection repeats ApiVersions
requests (the longest wait shows the longest stall of the loop, or other work of the machine). Every tenth partition
gets records. Then the node is stopped in order and started again, and killed and started again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.testing
from bench.cases import Goal, Metrics
from bench.measure import cpu_seconds, resident_bytes
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result
from bench.witness import Witness

__all__ = ["SPECIALS", "TIMEOUT_S", "TOPIC", "TOPIC_PARTITIONS_MAX", "main"]

GROUP = "many partitions on a node"
NAME = "50,000 replicas, beside what they may take"
BUDGET = {"start CPU s": 3.0, "crash start CPU s": 6.0, "RSS after start MB": 250.0, "longest wait ms": 100.0}

TOPIC = "t"
# A request writes at most 10,000 records, the topic among them.
TOPIC_PARTITIONS_MAX = 5_000
TIMEOUT_S = 300.0
IDLE_S = 5.0


def measure(count: int) -> dict[str, float]:
    with ottla.testing.cluster() as cluster:
        node = cluster.node(1)
        data = node.directory / "data"
        memory = resident_bytes(node.pid)
        cpu_s = cpu_seconds(node.pid)
        witness = Witness(node.address)
        with witness.watching():
            _create(cluster.bootstrap, count)
            while sum(1 for _ in data.glob(f"{TOPIC}*-*")) < count:
                time.sleep(0.05)
            time.sleep(0.5)
        created_cpu_s = cpu_seconds(node.pid) - cpu_s
        created_memory = resident_bytes(node.pid)
        _produce(cluster.bootstrap, count)
        figures: dict[str, float] = {
            "partitions": count,
            "creation CPU s": created_cpu_s,
            "longest wait ms": witness.longest_s * 1000,
            "RSS grown MB": (created_memory - memory) / 1e6,
        }
        began = time.monotonic()
        node.stop()
        figures["stop s"] = time.monotonic() - began
        for how in ("start", "crash start"):
            began = time.monotonic()
            node.start()
            _wait_until_served(cluster.bootstrap, count)
            figures[f"{how} s"] = time.monotonic() - began
            figures[f"{how} CPU s"] = started_cpu_s = cpu_seconds(node.pid)
            figures[f"RSS after {how} MB"] = resident_bytes(node.pid) / 1e6
            if how == "start":
                time.sleep(IDLE_S)
                figures["idle CPU %"] = (cpu_seconds(node.pid) - started_cpu_s) / IDLE_S * 100
                node.kill()
        figures["metadata log KB"] = sum(file.stat().st_size for file in data.glob("__cluster_metadata-0/*.log")) / 1e3
        return figures


def _topics(count: int) -> list[NewTopic]:
    full_topics, remainder = divmod(count, TOPIC_PARTITIONS_MAX)
    sizes = [TOPIC_PARTITIONS_MAX] * full_topics + ([remainder] if remainder else [])
    return [NewTopic(f"{TOPIC}{number}", size, 1) for number, size in enumerate(sizes)]


def _create(bootstrap: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in _topics(count):
        admin.create_topics([topic], request_timeout=TIMEOUT_S)[topic.topic].result(TIMEOUT_S)


def _produce(bootstrap: str, count: int) -> None:
    """Some records, so that a start has something to check."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    for topic in _topics(count):
        for partition in range(0, topic.num_partitions, 10):
            producer.produce(topic.topic, b"x" * 100, partition=partition)
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def _wait_until_served(bootstrap: str, count: int) -> None:
    """The last partition answers a produce."""
    topic = _topics(count)[-1]
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "acks": 1, "retry.backoff.ms": 20})
    producer.produce(topic.topic, b"x", partition=topic.num_partitions - 1)
    assert producer.flush(TIMEOUT_S) == 0


def measure_special(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    rounds: list[Metrics] = [measure(50_000) for _ in range(runs)]
    goals = dict.fromkeys(BUDGET, Goal(ratio=1.0))
    return as_result(GROUP, NAME, goals, {PEER: [dict(BUDGET) for _ in rounds], OURS: rounds})


SPECIALS: tuple[Special, ...] = ((f"{GROUP}: {NAME}", 60.0, measure_special),)


def main(arguments: list[str]) -> None:
    for count in map(int, arguments or ["1000", "5000", "20000", "50000"]):
        print("  ".join(f"{name} {value:.2f}" for name, value in measure(count).items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
