"""Drains and refills a broker of a real cluster while producers write, and measures how long they wait."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing.clusters import Cluster, node_environment

__all__ = ["Figures", "PacedProducer", "Phase", "create_filled_topic", "drain_and_refill", "replicas_on"]

REPLICAS = 3
COMMAND_SECONDS_MAX = 600.0


class PacedProducer:
    """Sends small records with acks=all at a steady pace, and records the latency of every send."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, interval_seconds: float = 0.005) -> None:
        self._topic = topic
        self._partitions = partitions
        self._interval_seconds = interval_seconds
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
        self._latencies: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.flush(60)

    def _run(self) -> None:
        number, due = 0, time.monotonic()
        while not self._stopped.is_set():
            number += 1
            sent = time.monotonic()

            def on_delivery(error: object, _: object, sent: float = sent) -> None:
                if error is None:
                    self._latencies.append(time.monotonic() - sent)
                else:
                    self.failures.append(str(error))

            self._producer.produce(
                self._topic, bytes(100), partition=number % self._partitions, on_delivery=on_delivery
            )
            # A pause that was too long is not made up for: the pace models the load of clients, not a queue.
            due = max(due + self._interval_seconds, time.monotonic())
            while (left := due - time.monotonic()) > 0:
                # `poll` returns early, with the first answer.
                self._producer.poll(left)

    def taken(self) -> list[float]:
        """The latencies since the last call, in seconds, sorted."""
        latencies, self._latencies = self._latencies, []
        return sorted(latencies)


class Phase(NamedTuple):
    """The sends of a phase of the run."""

    seconds: float
    sorted_seconds: list[float]

    def milliseconds(self, quantile: float) -> float:
        assert self.sorted_seconds
        return self.sorted_seconds[min(int(len(self.sorted_seconds) * quantile), len(self.sorted_seconds) - 1)] * 1000

    def __str__(self) -> str:
        p50, p90, p99, p999, longest = map(self.milliseconds, (0.5, 0.9, 0.99, 0.999, 1.0))
        return (
            f"{len(self.sorted_seconds)} sends in {self.seconds:.0f} s: p50 {p50:.1f} ms, p90 {p90:.1f} ms, "
            f"p99 {p99:.1f} ms, p99.9 {p999:.1f} ms, longest {longest:.1f} ms"
        )


class Figures(NamedTuple):
    before: Phase
    drain: Phase
    refill: Phase

    @property
    def ratio(self) -> float:
        """The p99 latency in the worse phase, as a multiple of the p99 before."""
        return max(self.drain.milliseconds(0.99), self.refill.milliseconds(0.99)) / self.before.milliseconds(0.99)

    def __str__(self) -> str:
        return f"before   {self.before}\nemptied  {self.drain}\nfilled   {self.refill}"


def create_filled_topic(bootstrap: str, topic: str, partitions: int, partition_bytes: int) -> None:
    """Creates a topic with random bytes, which cannot be compressed."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, REPLICAS)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    generator = random.Random(1)
    block = 20_000
    for _ in range(partition_bytes // block):
        for partition in range(partitions):
            producer.produce(topic, generator.randbytes(block), partition=partition)
        producer.flush(60)


def replicas_on(bootstrap: str, broker_id: int) -> int:
    """The number of partitions of all topics with a replica on the broker."""
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=60).topics
    return sum(broker_id in partition.replicas for topic in topics.values() for partition in topic.partitions.values())


def drain_and_refill(
    cluster: Cluster, producer: PacedProducer, directory: Path, *, broker_id: int, throttle: int, seconds: float
) -> Figures:
    """`seconds`: the duration of the measurement before the drain."""
    # The first second is not typical, because of new connections and cold caches.
    time.sleep(1.0)
    producer.taken()
    time.sleep(seconds)
    before = producer.taken()
    began = time.monotonic()
    _balance(cluster, directory, throttle, "--drain", str(broker_id))
    drained = time.monotonic()
    during_drain = producer.taken()
    assert replicas_on(cluster.bootstrap, broker_id) == 0
    _balance(cluster, directory, throttle)
    refilled = time.monotonic()
    return Figures(
        Phase(seconds, before), Phase(drained - began, during_drain), Phase(refilled - drained, producer.taken())
    )


def _balance(cluster: Cluster, directory: Path, throttle: int, *options: str) -> None:
    """Runs in a separate process with the lowest priority, so the planner takes no CPU from brokers and clients."""
    words = ["balance", "run", "--yes", "--journal", str(directory / "journal.json"), "--throttle", str(throttle)]
    # The guard is on, but its limit is too high to end a run on a busy machine.
    words += ["--latency-factor", "1000", "-b", cluster.bootstrap, *options]
    completed = subprocess.run(
        ["nice", "-n", "19", sys.executable, "-m", "ottla.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        env=node_environment(),
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
