"""Damage to a partition's files affects only that partition, is logged, and never gives an offset twice."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

import ottla.testing

WAIT_S = 60.0


def produce(bootstrap: str, topic: str, values: list[bytes], *, partition: int = 0) -> list[int]:
    """Sends the values with acks=all; returns their offsets."""
    offsets: list[int] = []

    def on_delivery(error: KafkaException | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 60_000, "retry.backoff.ms": 50})
    for value in values:
        producer.produce(topic, value=value, partition=partition, on_delivery=on_delivery)
    assert producer.flush(WAIT_S) == 0
    return offsets


def consume(
    bootstrap: str, topic: str, count: int, *, partition: int = 0, up_to: int | None = None
) -> list[tuple[int, bytes]]:
    """Reads from the beginning until there are `count` records, or the record at offset `up_to`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    records: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + WAIT_S
    while len(records) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            records.append((message.offset() or 0, message.value() or b""))
            if message.offset() == up_to:
                break
    consumer.close()
    return records


def create(bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 1, **config: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=settings)
    for future in admin.create_topics([new]).values():
        future.result(WAIT_S)
    return admin


def leader_of(admin: AdminClient, topic: str) -> int:
    return admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].leader


def in_sync(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].isrs)


def wait_until(condition: Callable[[], bool], expectation: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {expectation}"
        time.sleep(0.05)


def directory_of(node: ottla.testing.Node, topic: str, partition: int = 0) -> Path:
    paths = list(node.directory.rglob(f"{topic}-{partition}"))
    assert len(paths) == 1, paths
    return paths[0]


def values(count: int, prefix: str = "v") -> list[bytes]:
    return [b"%s-%d" % (prefix.encode(), number) for number in range(count)]


def test_a_foreign_file_does_not_keep_a_node_from_starting() -> None:
    with ottla.testing.cluster() as cluster:
        create(cluster.bootstrap, "t", partitions=2)
        for partition in (0, 1):
            produce(cluster.bootstrap, "t", values(10), partition=partition)
        node = cluster.node(1)
        node.stop()
        directory = directory_of(node, "t", 0)
        (directory / "backup.log.swap").write_bytes(b"of an editor")
        checkpoint = directory / "leader-epoch-checkpoint"
        checkpoint.unlink()
        checkpoint.mkdir()
        node.start()
        assert [value for _, value in consume(cluster.bootstrap, "t", 10, partition=1)] == values(10)
        assert produce(cluster.bootstrap, "t", values(1), partition=1) == [10]
        assert "t-0 is out of service" in node.output
        node.stop()
        checkpoint.rmdir()
        node.start()
        assert [value for _, value in consume(cluster.bootstrap, "t", 10, partition=0)] == values(10)


def test_another_replica_leads_while_a_log_cannot_be_opened() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3)
        produce(cluster.bootstrap, "t", values(10))
        victim = leader_of(admin, "t")
        node = cluster.node(victim)
        node.stop()
        checkpoint = directory_of(node, "t") / "leader-epoch-checkpoint"
        checkpoint.unlink()
        checkpoint.mkdir()
        node.start()
        wait_until(lambda: "t-0 is out of service" in node.output, "the node says so")
        assert produce(cluster.bootstrap, "t", values(1)) == [10]
        assert leader_of(admin, "t") != victim
        assert victim not in in_sync(admin, "t")
        node.stop()
        checkpoint.rmdir()
        node.start()
        wait_until(lambda: in_sync(admin, "t") == [1, 2, 3], "the repaired replica is in sync again")


def active_segment(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def test_a_removed_active_segment_of_an_only_replica_gives_no_offset_twice() -> None:
    with ottla.testing.cluster() as cluster:
        create(cluster.bootstrap, "t")
        assert produce(cluster.bootstrap, "t", values(10))[-1] == 9
        node = cluster.node(1)
        node.stop()
        active_segment(directory_of(node, "t")).unlink()
        node.start()
        assert "t-0 has lost the records from offset 0 to 9" in node.output
        assert produce(cluster.bootstrap, "t", values(2, "new")) == [10, 11]
        assert consume(cluster.bootstrap, "t", 2) == [(10, b"new-0"), (11, b"new-1")]


def test_a_removed_active_segment_is_fetched_again_from_the_leader() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3)
        produce(cluster.bootstrap, "t", values(10))
        victim = leader_of(admin, "t")
        node = cluster.node(victim)
        node.stop()
        segment = active_segment(directory_of(node, "t"))
        original = segment.read_bytes()
        segment.unlink()
        node.start()
        wait_until(lambda: in_sync(admin, "t") == [1, 2, 3], "the replica is in sync again")
        assert "t-0 has lost the records from offset 0 to 9" in node.output
        assert segment.read_bytes() == original
        assert produce(cluster.bootstrap, "t", values(1)) == [10]


def test_a_truncated_active_segment_of_an_only_replica_is_recovered() -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "200", "log.initial.task.delay.ms": "0"}
    with ottla.testing.cluster(settings=settings) as cluster:
        create(cluster.bootstrap, "t")
        produce(cluster.bootstrap, "t", [b"x" * 50_000 for _ in range(10)])
        node = cluster.node(1)
        segment = active_segment(directory_of(node, "t"))
        os.truncate(segment, 120_000)
        produce(cluster.bootstrap, "t", values(1))
        wait_until(lambda: "t-0 was recovered" in node.output, "the damage is noticed")
        [offset] = produce(cluster.bootstrap, "t", values(1, "new"))
        assert offset == 11
        assert consume(cluster.bootstrap, "t", 12, up_to=11)[-1] == (11, b"new-0")


def test_a_segment_that_lost_a_few_bytes_is_recovered_before_the_next_append() -> None:
    with ottla.testing.cluster() as cluster:
        create(cluster.bootstrap, "t")
        for value in values(3):
            produce(cluster.bootstrap, "t", [value])
        node = cluster.node(1)
        segment = active_segment(directory_of(node, "t"))
        size = segment.stat().st_size
        os.truncate(segment, size - 5)
        assert produce(cluster.bootstrap, "t", values(1, "new")) == [3]
        assert f"was truncated: it has lost bytes from position {size - 5} to {size}" in node.output
        assert "t-0 was recovered" in node.output
        records = consume(cluster.bootstrap, "t", 3, up_to=3)
        assert records == [(0, b"v-0"), (1, b"v-1"), (3, b"new-0")]


def test_a_truncated_active_segment_is_fetched_again_from_another_leader() -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "200", "log.initial.task.delay.ms": "0"}
    with ottla.testing.cluster(nodes=3, settings=settings) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3)
        produce(cluster.bootstrap, "t", [b"x" * 50_000 for _ in range(10)])
        victim = leader_of(admin, "t")
        node = cluster.node(victim)
        os.truncate(active_segment(directory_of(node, "t")), 120_000)
        wait_until(lambda: "t-0 was recovered" in node.output, "the damage is noticed")
        wait_until(lambda: leader_of(admin, "t") != victim, "another replica leads")
        assert produce(cluster.bootstrap, "t", values(1)) == [10]
        wait_until(lambda: in_sync(admin, "t") == [1, 2, 3], "the replica is in sync again")
        assert [offset for offset, _ in consume(cluster.bootstrap, "t", 11)] == list(range(11))


def test_a_vanished_directory_does_not_come_back_empty_and_leading() -> None:
    settings = {"log.flush.offset.checkpoint.interval.ms": "200", "log.initial.task.delay.ms": "0"}
    with ottla.testing.cluster(nodes=3, settings=settings) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3)
        produce(cluster.bootstrap, "t", values(10))
        victim = leader_of(admin, "t")
        node = cluster.node(victim)
        shutil.rmtree(directory_of(node, "t"))
        wait_until(lambda: "t-0 was recovered" in node.output, "the damage is noticed")
        wait_until(lambda: leader_of(admin, "t") != victim, "another replica leads")
        assert produce(cluster.bootstrap, "t", values(1)) == [10]
        wait_until(lambda: in_sync(admin, "t") == [1, 2, 3], "the replica is in sync again")
        assert [offset for offset, _ in consume(cluster.bootstrap, "t", 11)] == list(range(11))


def closed_segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))[:-1]


def flip(segment: Path, position: int = 16) -> None:
    """Position 16 is the format version of the first batch."""
    with segment.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x5A]))


def test_a_leader_with_a_damaged_closed_segment_hands_over_and_is_repaired() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3, segment_bytes=str(1 << 20))
        produce(cluster.bootstrap, "t", [b"%03d" % number + b"x" * 50_000 for number in range(60)])
        victim = leader_of(admin, "t")
        node = cluster.node(victim)
        damaged = closed_segments(directory_of(node, "t"))[1]
        original = damaged.read_bytes()
        flip(damaged)
        # The consumer sees nothing of it but a delay.
        records = consume(cluster.bootstrap, "t", 60)
        assert [offset for offset, _ in records] == list(range(60))
        assert [int(value[:3]) for _, value in records] == list(range(60))
        wait_until(lambda: "was repaired with the records of broker" in node.output, "the segment is repaired")
        assert damaged.read_bytes() == original
        wait_until(lambda: in_sync(admin, "t") == [1, 2, 3], "all replicas are in sync")
        assert "another in-sync replica shall lead" in node.output
        assert produce(cluster.bootstrap, "t", values(1)) == [60]


def test_a_closed_segment_that_was_removed_while_stopped_is_fetched_again() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3, segment_bytes=str(1 << 20))
        produce(cluster.bootstrap, "t", [b"x" * 50_000 for _ in range(60)])
        victim = leader_of(admin, "t")
        node = cluster.node(victim)
        node.stop()
        removed = closed_segments(directory_of(node, "t"))[0]
        original = removed.read_bytes()
        removed.unlink()
        node.start()
        wait_until(lambda: "was repaired with the records of broker" in node.output, "the segment is repaired")
        assert removed.read_bytes() == original
        assert [offset for offset, _ in consume(cluster.bootstrap, "t", 60)] == list(range(60))


def test_a_closed_segment_that_is_truncated_while_the_leader_serves_it_is_repaired() -> None:
    with ottla.testing.cluster(nodes=3) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3, segment_bytes=str(1 << 20))
        produce(cluster.bootstrap, "t", [b"x" * 50_000 for _ in range(60)])
        node = cluster.node(leader_of(admin, "t"))
        truncated = closed_segments(directory_of(node, "t"))[1]
        original = truncated.read_bytes()
        os.truncate(truncated, len(original) - 60_000)
        assert [offset for offset, _ in consume(cluster.bootstrap, "t", 60)] == list(range(60))
        wait_until(lambda: "was repaired with the records of broker" in node.output, "the segment is repaired")
        assert truncated.read_bytes() == original


def test_the_scrub_finds_a_rotten_record_that_was_never_read() -> None:
    settings = {"ottla.log.scrub.interval.ms": "1000"}
    with ottla.testing.cluster(nodes=3, settings=settings) as cluster:
        admin = create(cluster.bootstrap, "t", replicas=3, segment_bytes=str(1 << 20))
        produce(cluster.bootstrap, "t", [b"x" * 50_000 for _ in range(60)])
        leader = leader_of(admin, "t")
        node = cluster.node(1 + leader % 3)
        rotten = closed_segments(directory_of(node, "t"))[1]
        original = rotten.read_bytes()
        flip(rotten, position=300_000)
        # Turned on while the node runs.
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node.node_id))
        resource.add_incremental_config(
            ConfigEntry(
                "ottla.log.scrub.bytes.per.second",
                "100000000",
                incremental_operation=AlterConfigOpType.SET,
            )
        )
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)
        wait_until(lambda: "was repaired with the records of broker" in node.output, "the segment is repaired")
        assert rotten.read_bytes() == original
        assert leader_of(admin, "t") == leader
        assert in_sync(admin, "t") == [1, 2, 3]
