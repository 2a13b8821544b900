"""Full disks, failing directories and crowds, as real clients meet them."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import cluster

WAIT_SECONDS = 60.0


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=WAIT_SECONDS)
        assert all(message.error() is None for message in messages)
        return [message.value() or b"" for message in messages]
    finally:
        consumer.close()


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    described = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=WAIT_SECONDS)
    return {index: partition.leader for index, partition in described.topics[topic].partitions.items()}


def test_a_full_disk_holds_producers_up_and_lets_readers_read() -> None:
    with cluster() as running:
        delivered: list[bytes] = []
        errors: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered.append(message.value() or b"")
            else:
                errors.append(error)

        settings: dict[str, Any] = {"bootstrap.servers": running.bootstrap, "linger.ms": 5, "batch.size": 20_000}
        producer = Producer({**settings, "retry.backoff.ms": 50, "enable.idempotence": True})
        # A file size limit looks like a full disk to the node.
        pid = running.node(1).pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (200_000, before[1]))
        texts = [b"%04d" % number * 250 for number in range(400)]
        for text in texts:
            producer.produce("t", text, on_delivery=on_delivery)
        eventually(lambda: producer.poll(0.1) >= 0 and "No room to append" in running.node(1).output)
        # Records written before the limit are acknowledged; the client may see the answers a moment later.
        eventually(lambda: producer.poll(0.1) >= 0 and len(delivered) > 100)
        before_room = list(delivered)
        assert len(before_room) < 200
        assert values(running.bootstrap, "t", len(before_room)) == before_room
        assert not errors
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        assert producer.flush(WAIT_SECONDS) == 0
        assert not errors
        assert delivered == texts
        assert values(running.bootstrap, "t", len(texts)) == texts


def test_a_directory_that_fails_takes_only_its_own_partitions_along(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with cluster(settings={"log.dirs": f"{first},{second}", "broker.heartbeat.interval.ms": "100"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topic = NewTopic("t", 4, 1, config={"segment.bytes": "1048576"})
        admin.create_topics([topic])["t"].result(WAIT_SECONDS)
        lost = {int(path.name[2:]) for path in second.glob("t-*")}
        assert len(lost) == 2
        for path in second.glob("t-*"):
            shutil.rmtree(path)
        filler = Producer({"bootstrap.servers": running.bootstrap})
        delivered: set[int] = set()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered.add(message.partition() or 0)

        # Enough for a second segment, which cannot be created in a missing directory.
        for _ in range(30):
            for partition in range(4):
                filler.produce("t", os.urandom(50_000), partition=partition)
        expected = {partition: -1 if partition in lost else 1 for partition in range(4)}
        eventually(lambda: filler.poll(0.1) >= 0 and leaders(running.bootstrap, "t") == expected)
        filler.purge()
        filler.flush(WAIT_SECONDS)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for partition in range(4):
            producer.produce("t", b"x", partition=partition, on_delivery=on_delivery)
        eventually(lambda: producer.poll(0.1) >= 0 and delivered >= {0, 1, 2, 3} - lost)
        # The other partitions have no leader, so no node accepts records for them.
        producer.poll(1)
        producer.purge()
        producer.flush(WAIT_SECONDS)
        assert delivered == {0, 1, 2, 3} - lost
        admin.create_topics([NewTopic("u", 2, 1)])["u"].result(WAIT_SECONDS)
        assert set(leaders(running.bootstrap, "u").values()) == {1}


def test_a_directory_that_cannot_be_used_does_not_stop_the_start(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    with cluster(settings={"log.dirs": f"{good},{bad}", "broker.heartbeat.interval.ms": "100"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(WAIT_SECONDS)
        lost = {int(path.name[2:]) for path in bad.glob("t-*")}
        assert len(lost) == 2
        running.node(1).stop()
        bad.rename(tmp_path / "elsewhere")
        bad.write_text("not a directory")
        running.node(1).start()
        assert leaders(running.bootstrap, "t") == {index: -1 if index in lost else 1 for index in range(4)}
        running.node(1).stop()
        bad.unlink()
        (tmp_path / "elsewhere").rename(bad)
        running.node(1).start()
        eventually(lambda: set(leaders(running.bootstrap, "t").values()) == {1})


def test_a_crowd_that_comes_at_once_is_let_in() -> None:
    with cluster() as running:
        host, _, port = running.bootstrap.rpartition(":")
        node = running.node(1)
        crowd: list[socket.socket] = []
        # The node is stopped while the clients connect: its backlog must hold all connections until it continues.
        os.kill(node.pid, signal.SIGSTOP)
        try:
            crowd.extend(socket.create_connection((host, int(port)), timeout=30) for _ in range(300))
        finally:
            os.kill(node.pid, signal.SIGCONT)
        request = b"\0\0\0\x0a" + b"\0\x12\0\0" + b"\0\0\0\1" + b"\xff\xff"
        for connection in crowd:
            connection.sendall(request)
        for connection in crowd:
            assert len(connection.recv(4)) == 4
            connection.close()
