"""Exactly once, seen from outside: processes that copy partitions in transactions are killed, and no record is lost,
no record is there twice, and no aborted record is visible.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import IO

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import jars
from tests.support.java import PROGRAMS, java_command

__all__ = [
    "CLUSTER_SETTINGS",
    "Copier",
    "check_copies",
    "fill",
    "java_copier",
    "librdkafka_copier",
    "prepare",
    "read_committed",
    "read_keyed",
]

GROUP = "copiers"
SOURCE, TARGET = "source", "target"

CLUSTER_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
}

Command = Callable[[str, int], Sequence[str]]
"""(bootstrap, partition) -> the words of a command."""


def librdkafka_copier(size: int) -> Command:
    def command(bootstrap: str, partition: int) -> Sequence[str]:
        program = str(PROGRAMS / "copier.py")
        name = f"copier-{partition}"
        return [sys.executable, program, bootstrap, SOURCE, TARGET, str(partition), GROUP, name, str(size)]

    return command


def java_copier(size: int, *, group_mode: bool) -> Command:
    """Kafka's TransactionalMessageCopier, with random aborts."""
    java, class_path = java_command(), jars.class_path(jars.TOOLS)

    def command(bootstrap: str, partition: int) -> Sequence[str]:
        words = [java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        words += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}", "-cp", class_path]
        words += ["org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap]
        words += ["--input-topic", SOURCE, "--input-partition", str(partition), "--output-topic", TARGET]
        words += ["--consumer-group", GROUP, "--transactional-id", f"copier-{partition}"]
        words += ["--transaction-size", str(size), "--transaction-timeout", "10000", "--enable-random-aborts"]
        return words + (["--group-mode", "--use-group-metadata"] if group_mode else [])

    return command


class Copier:
    """A process that is restarted whenever it is killed or fails."""

    def __init__(self, command: Command, bootstrap: Callable[[], str], partition: int, output: IO[bytes]) -> None:
        self._command = command
        self._bootstrap = bootstrap
        self._output = output
        self.partition = partition
        self.starts = 0
        self.is_finished = False
        self._process: subprocess.Popen[bytes] | None = None

    def keep_going(self) -> None:
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return
            self._process = None
            self.is_finished = status == 0
        if not self.is_finished:
            self.starts += 1
            words = self._command(self._bootstrap(), self.partition)
            self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=self._output)

    def start_again(self) -> None:
        """Restarts a process that has ended too early."""
        self.is_finished = False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def prepare(bootstrap: str, *, partitions: int, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, partitions, replicas) for name in (SOURCE, TARGET)]
    for created in admin.create_topics(topics).values():
        created.result(30)


def fill(bootstrap: str, *, partitions: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        for partition in range(partitions):
            producer.produce(SOURCE, f"{partition}-{number}", partition=partition)
    assert producer.flush(60) == 0


def check_copies(
    bootstrap: Callable[[], str],
    command: Command,
    *,
    partitions: int,
    records: int,
    seconds: float,
    random: Random,
    kills_min: int = 0,
    disturb: Callable[[], None] | None = None,
    calm: Callable[[], None] | None = None,
    pause_seconds: tuple[float, float] = (0.5, 2.0),
    patience_seconds: float = 120.0,
    output_file: Path | None = None,
    in_group: bool = False,
) -> int:
    """Copies every partition in a separate process, and kills the processes at random for `seconds` and at least
    `kills_min` times; returns the number of kills.

    `disturb` may do more harm after every kill, until `calm` is called; then copying has to finish. The output of the
    processes goes to the file. Processes that share the partitions as a group (`in_group`) end when they have none,
    even while a killed member still owns some: they are restarted until the group has read everything.
    """
    kills = 0
    with tempfile.TemporaryFile() if output_file is None else open(output_file, "w+b") as output:
        copiers = [Copier(command, bootstrap, partition, output) for partition in range(partitions)]
        try:
            end = time.monotonic() + seconds
            while (time.monotonic() < end or kills < kills_min) and not all(copier.is_finished for copier in copiers):
                _drive(copiers, random.uniform(*pause_seconds))
                victim = random.choice(copiers)
                if not victim.is_finished:
                    victim.kill()
                    kills += 1
                if disturb is not None:
                    disturb()
            if calm is not None:
                calm()
            deadline = time.monotonic() + patience_seconds
            while True:
                if all(copier.is_finished for copier in copiers):
                    if not in_group or _has_read_all(bootstrap(), records):
                        break
                    for copier in copiers:
                        copier.start_again()
                assert time.monotonic() < deadline, f"copying does not end: {_tail(output)}"
                _drive(copiers, 0.1)
        finally:
            for copier in copiers:
                copier.kill()
        output.seek(0)
        assert b"UnknownServerException" not in output.read(), "no fault is the server's own"
        copied = read_committed(bootstrap(), TARGET, partitions)
    for partition in range(partitions):
        expected = [f"{partition}-{number}" for number in range(records)]
        assert copied[partition] == expected, _difference(expected, copied[partition])
    return kills


def _has_read_all(bootstrap: str, records: int) -> bool:
    """True if the group's offsets are at the end of every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(SOURCE, timeout=30).topics[SOURCE].partitions
        places = consumer.committed([TopicPartition(SOURCE, partition) for partition in partitions], timeout=30)
        return all(place.offset == records for place in places)
    finally:
        consumer.close()


def read_committed(bootstrap: str, topic: str, partitions: int) -> list[list[str]]:
    """The committed values of every partition, up to the last stable offset."""
    values_by_partition: list[list[str]] = [[] for _ in range(partitions)]
    for partition, _, value in _committed(bootstrap, topic, partitions):
        values_by_partition[partition].append(value)
    return values_by_partition


def read_keyed(bootstrap: str, topic: str, partitions: int) -> dict[str, list[str]]:
    """The committed values by key."""
    values_by_key: dict[str, list[str]] = {}
    for _, key, value in _committed(bootstrap, topic, partitions):
        values_by_key.setdefault(key, []).append(value)
    return values_by_key


def _committed(bootstrap: str, topic: str, partitions: int) -> Iterator[tuple[int, str, str]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end: {ended}"
            for message in consumer.consume(500, timeout=1):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    yield partition, str(message.key() or b"", "utf-8"), str(message.value() or b"", "utf-8")
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
    finally:
        consumer.close()


def _drive(copiers: list[Copier], seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        for copier in copiers:
            copier.keep_going()
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.05))


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read()[-3000:].decode(errors="replace")


def _difference(expected: list[str], actual: list[str]) -> str:
    missing = sorted(set(expected) - set(actual))[:10]
    extra = sorted(set(actual) - set(expected))[:10]
    twice = (
        sorted({value for value in actual if actual.count(value) > 1})[:10] if len(actual) != len(set(actual)) else []
    )
    return f"{len(actual)} instead of {len(expected)} records; missing {missing}, strange {extra}, twice {twice}"
