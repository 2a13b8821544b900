"""The workload during a fault, and the checks afterwards.

Writers send numbered records with acks=all and idempotence and remember the offsets of acknowledged records: librdkafka
in this process, Kafka's VerifiableProducer in a JVM. `check` then reads everything back: every acknowledged record is
at its offset, no record is there twice, and every partition has its numbers in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient

import ottla.testing
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from tests.support import jars
from tests.support.java import PROGRAMS, java_command
from tests.support.raw_client import RawClient

__all__ = [
    "FAULT_SETTINGS",
    "JavaWriter",
    "NativeWriter",
    "Writer",
    "check",
    "controller_of",
    "in_sync",
    "leader_of",
    "only_the_leader_has_more",
    "wait_in_sync",
    "wait_until",
]

WAIT_SECONDS_MAX = 60.0
REQUEST_TIMEOUT_MS = 2_000
METADATA_MS = 500
# A producer whose records can be appended gets an acknowledgement within this time.
LEADER_AHEAD_SECONDS_MAX = 1.0

# Short timeouts, so that faults are detected soon; with two of three replicas in sync no acknowledged record is lost.
FAULT_SETTINGS = {
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "2000",
    "min.insync.replicas": "2",
}

Acknowledged = dict[int, dict[int, int]]


def wait_until(condition: Callable[[], bool], description: str, seconds: float = WAIT_SECONDS_MAX) -> None:
    assert _becomes_true(condition, seconds), f"in vain waited until {description}"


class Writer:
    """Writes continuously at a useful rate until it is stopped; a context manager."""

    def __init__(self) -> None:
        # By partition and offset: the number of the acknowledged record.
        self.acknowledged: Acknowledged = {}
        # By partition: numbers that were already in the log when they were sent again. Their offsets are unknown.
        self.repeated: dict[int, set[int]] = {}
        self.errors: list[str] = []

    @property
    def count(self) -> int:
        return sum(map(len, list(self.acknowledged.values())))

    def wait_for(self, more_count: int, partition: int | None = None) -> None:
        """Waits until `more_count` more records are acknowledged, in total or in the given partition."""

        def count() -> int:
            return self.count if partition is None else len(self.acknowledged.get(partition, ()))

        target = count() + more_count
        wait_until(lambda: count() >= target, f"{more_count} more records are acknowledged {self.errors[:3]}")

    def stop(self) -> None:
        raise NotImplementedError

    def _note(self, partition: int, offset: int, number: int) -> None:
        known = self.acknowledged.setdefault(partition, {})
        if offset in known:
            self.errors.append(f"{partition}@{offset} was acknowledged twice")
        known[offset] = number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class NativeWriter(Writer):
    """A writer with librdkafka."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__()
        self._topic = topic
        self._partitions = partitions
        self._is_stopped = False
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 120_000}
        # The wait for answers of a broker that has stopped answering; the default is a minute.
        settings |= {"socket.timeout.ms": REQUEST_TIMEOUT_MS, "request.timeout.ms": REQUEST_TIMEOUT_MS}
        # A leader that is cut off does not know it; only other brokers know the new leader.
        settings |= {"topic.metadata.refresh.interval.ms": METADATA_MS}
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._thread.join()
            left = self._producer.flush(WAIT_SECONDS_MAX)
            assert left == 0, f"{left} records were never acknowledged"

    def _run(self) -> None:
        number = 0
        while not self._is_stopped:
            for partition in range(self._partitions):
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        self._topic, b"%d" % number, partition=partition, on_delivery=self._on_delivery
                    )
            number += 1
            self._producer.poll(0.002)

    def _on_delivery(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        if offset is None:
            self.repeated.setdefault(partition, set()).add(int(value))
        else:
            self._note(partition, offset, int(value))


class JavaWriter(Writer):
    """A writer with Kafka's VerifiableProducer, which prints a line for every record."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, *, records_per_second: int = 2_000) -> None:
        super().__init__()
        settings = directory / f"{topic}.properties"
        settings.write_text(
            "enable.idempotence=true\nretries=2147483647\nlinger.ms=2\ndelivery.timeout.ms=120000\n"
            f"request.timeout.ms={REQUEST_TIMEOUT_MS}\nmetadata.max.age.ms={METADATA_MS}\n"
        )
        command = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}"]
        command += ["-cp", jars.class_path(jars.TOOLS), "org.apache.kafka.tools.VerifiableProducer"]
        command += ["--bootstrap-server", bootstrap, "--topic", topic, "--acks", "-1"]
        command += ["--throughput", str(records_per_second), "--command-config", str(settings)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(WAIT_SECONDS_MAX)
        finally:
            self._process.kill()
            self._thread.join()

    def _run(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if not line.startswith("{"):
                    continue
                parsed = json.loads(line)
                if parsed["name"] == "producer_send_success":
                    self._note(parsed["partition"], parsed["offset"], int(parsed["value"]))
                elif parsed["name"] == "producer_send_error":
                    self.errors.append(line)


def check(bootstrap: str, topic: str, writer: Writer) -> None:
    """Checks that no record is lost or there twice, and that the records are in order."""
    assert writer.errors == []
    assert writer.count > 0
    for partition, acknowledged in writer.acknowledged.items():
        numbers = read_all(bootstrap, topic, partition)
        lost = {offset: number for offset, number in acknowledged.items() if numbers.get(offset) != number}
        assert lost == {}, f"{len(lost)} of {len(acknowledged)} records of {topic}-{partition} are lost"
        missing = writer.repeated.get(partition, set()).difference(numbers.values())
        assert missing == set(), f"{len(missing)} records of {topic}-{partition} that were sent twice are lost"
        wrong = [
            f"{number} at {offset} after {before}"
            for before, (offset, number) in zip(list(numbers.values())[:-1], list(numbers.items())[1:], strict=True)
            if number <= before
        ]
        assert wrong == [], f"{topic}-{partition} has records twice or out of order: {wrong[:5]}"


def read_all(bootstrap: str, topic: str, partition: int) -> dict[int, int]:
    """The number of every record by offset, up to the high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    try:
        place = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS_MAX)
        consumer.assign([place])
        numbers: dict[int, int] = {}

        def is_complete() -> bool:
            for message in consumer.consume(10_000, timeout=0.05):
                assert message.error() is None
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                numbers[offset] = int(value)
            return len(numbers) >= end

        wait_until(is_complete, f"{end} records of {topic}-{partition} are read")
        return numbers
    finally:
        consumer.close()


# Leaders and replicas in the metadata of any node.


def _partitions(bootstrap: str, topic: str) -> dict[int, tuple[int, list[int]]]:
    described = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=30)
    return {
        index: (partition.leader, sorted(partition.isrs))
        for index, partition in described.topics[topic].partitions.items()
    }


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The node id of the leader, or -1."""
    return _partitions(bootstrap, topic)[partition][0]


def in_sync(bootstrap: str, topic: str, partition: int = 0) -> list[int]:
    return _partitions(bootstrap, topic)[partition][1]


def wait_in_sync(bootstrap: str, topic: str, expected: list[int]) -> None:
    """Waits until every partition has a leader and exactly these replicas in sync."""

    def are_all() -> bool:
        with contextlib.suppress(Exception):
            return all(leader >= 0 and isr == expected for leader, isr in _partitions(bootstrap, topic).values())
        return False

    wait_until(are_all, f"{topic} has {expected} in sync")


@contextlib.contextmanager
def only_the_leader_has_more(cluster: ottla.testing.Cluster, topic: str, leader_id: int) -> Iterator[None]:
    """Freezes all other nodes. The leader has appended records that no follower has, and none of them is committed.

    Whatever happens to the leader inside the block, acknowledgements of acks=all must still hold afterwards. Without
    the freeze the followers are at most a moment behind, and a leader that answered too early would not be noticed.
    """
    leader = cluster.node(leader_id)
    followers = [node for node in cluster.nodes if node.running and node is not leader]

    def size(node: ottla.testing.Node) -> int:
        return (node.directory / "data" / f"{topic}-0" / f"{0:020}.log").stat().st_size

    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        before = size(leader)
        for node in followers:
            os.kill(node.pid, signal.SIGSTOP)
        try:
            if _becomes_true(lambda: size(leader) > max(map(size, followers)), LEADER_AHEAD_SECONDS_MAX):
                yield
                return
        finally:
            for node in followers:
                os.kill(node.pid, signal.SIGCONT)
        # The followers had just appended all records that the producer may have in flight, so the leader gets no more.
        # The followers have to run until the producer has sent the next records.
        assert time.monotonic() < deadline, "in vain waited until the leader alone has more"
        wait_until(lambda before=before: size(leader) > before, "the producer has sent more")


def _becomes_true(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def controller_of(cluster: ottla.testing.Cluster) -> tuple[int, int]:
    """Returns the active controller's node id and the number of voters."""
    wanted = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    for node in cluster.nodes:
        if node.running:
            with RawClient(node.address) as client:
                answer = client.call(DescribeQuorumRequest(topics=[wanted]), 2).topics[0].partitions[0]
                if answer.leader_id > 0:
                    return answer.leader_id, len(answer.current_voters)
    raise AssertionError("no node knows the controller")
