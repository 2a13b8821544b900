"""A cluster of Apache Kafka under load becomes one of Ottla, node by node on the same files, and Kafka again."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.group_members import create_topic
from tests.java.conftest import require_java
from tests.support.broker_clusters import KafkaCluster
from tests.support.reading import watermarks

pytestmark = [pytest.mark.faults, pytest.mark.java]

OTTLA = [sys.executable, "-m", "ottla.cli.main"]
PARTITIONS = 4


class Load:
    """Idempotent producers and one of transactions; every record has a number of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[str] = []
        self.longest_pause = 0.0
        self._bootstrap = bootstrap
        self._topic = topic
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._send_in_transactions)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, "enable.idempotence": True})
        number = 0
        last = time.monotonic()

        def on_delivery(error: object, message: object) -> None:
            nonlocal last
            now = time.monotonic()
            if error is None:
                self.acknowledged.append(message.value().decode())  # type: ignore[attr-defined]
                self.longest_pause, last = max(self.longest_pause, now - last), now

        while not self._ended.is_set():
            producer.produce(self._topic, f"a{number}", partition=number % PARTITIONS, on_delivery=on_delivery)
            number += 1
            producer.poll(0.005)
        assert producer.flush(60) == 0

    def _send_in_transactions(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": "moved"})
        producer.init_transactions(60)
        number = 0
        while not self._ended.is_set():
            producer.begin_transaction()
            values = [f"b{number + index}" for index in range(10)]
            for value in values:
                producer.produce(self._topic, value, partition=number // 10 % PARTITIONS)
            try:
                producer.commit_transaction(60)
            except Exception as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(60)
                continue
            self.acknowledged += values
            number += 10


def change(kafka: KafkaCluster, node_id: int, *, to: str, pid: int, start: str, log: Path) -> str:
    file = kafka.properties_file(node_id)
    others = ",".join(kafka.address(other) for other in kafka.node_ids if other != node_id)
    command = [*OTTLA, "migrate", "node", "-c", str(file), "-b", others, "--to", to, "--yes"]
    command += ["--stop", f"kill {pid}", "--start", f"nohup {start} >> {log} 2>&1 &"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + log.read_text()[-3000:]
    return done.stdout


def pid_of(words: str) -> int:
    return int(subprocess.run(["pgrep", "-f", words], capture_output=True, text=True, check=True).stdout.split()[0])


def assert_exact(values_by_partition: dict[int, list[str]], load: Load) -> None:
    """No acknowledged record is lost or duplicated, and the records of each partition are in order."""
    counts = Counter(value for values in values_by_partition.values() for value in values)
    assert [value for value in load.acknowledged if not counts[value]] == [], "lost"
    assert [value for value in counts if counts[value] > 1] == [], "doubled"
    for values in values_by_partition.values():
        numbers = [int(value[1:]) for value in values if value.startswith("a")]
        assert numbers == sorted(numbers)


def read_all(bootstrap: str, topic: str) -> dict[int, list[str]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False})
    values_by_partition: dict[int, list[str]] = defaultdict(list)
    try:
        for partition in range(PARTITIONS):
            _, high = watermarks(consumer, TopicPartition(topic, partition))
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(5)
                if message is not None and message.error() is None:
                    values_by_partition[partition].append(message.value().decode())
                places = consumer.position([TopicPartition(topic, partition)])
                if places[0].offset >= high:
                    break
    finally:
        consumer.close()
    return values_by_partition


def test_there_and_back_under_load(tmp_path: Path) -> None:
    require_java()
    kafka = KafkaCluster(tmp_path, heap="256m")
    kafka.start()
    load = None
    try:
        topic = create_topic(kafka.bootstrap, PARTITIONS, replicas=3)
        load = Load(kafka.bootstrap, topic)
        load.start()
        for node_id in kafka.node_ids:
            file = kafka.properties_file(node_id)
            start = shlex.join([*OTTLA, "node", "--config", str(file)])
            log = tmp_path / f"ottla-{node_id}.log"
            print(change(kafka, node_id, to="ottla", pid=pid_of(str(file)), start=start, log=log))
        print(f"now Ottla; longest pause so far {load.longest_pause:.1f} s, {len(load.acknowledged)} acknowledged")
        for node_id in kafka.node_ids:
            file = kafka.properties_file(node_id)
            start = shlex.join(kafka.command(node_id))
            log = tmp_path / f"kafka-{node_id}.log"
            print(change(kafka, node_id, to="kafka", pid=pid_of(f"node --config {file}"), start=start, log=log))
        load.end()
        print(f"Kafka again; longest pause {load.longest_pause:.1f} s, {len(load.acknowledged)} acknowledged")
        assert_exact(read_all(kafka.bootstrap, topic), load)
    finally:
        if load is not None:
            load.end()
        for node_id in kafka.node_ids:
            # The first processes of the nodes have ended.
            kafka.kill_node(node_id)
        subprocess.run(["pkill", "-KILL", "-f", str(tmp_path)], check=False)
