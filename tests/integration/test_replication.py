"""Three nodes with the same records: acknowledged records survive the loss of any node."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of, wait_until
from tests.integration.data_path import batch, produce_request
from tests.support.raw_client import RawClient

SETTINGS = {
    # A killed process is missed within half of this time; a process that stalls for a second or two is not missed.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
}
ALL = [1, 2, 3]


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == ALL, "every node knows all three")
        yield cluster


def in_sync(nodes: ottla.testing.Cluster, topic: str, index: int = 0) -> list[int]:
    """The in-sync set in the metadata of the controller's node."""
    return sorted(partitions_of(nodes.node(1), topic)[index].isr_nodes)


def wait_in_sync(nodes: ottla.testing.Cluster, topic: str, expected: list[int], index: int = 0) -> None:
    wait_until(lambda: in_sync(nodes, topic, index) == expected, f"{topic}-{index} has {expected} in sync")


def log_bytes(node: ottla.testing.Node, topic: str, index: int = 0) -> bytes:
    directory = node.directory / "data" / f"{topic}-{index}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def wait_until_equal(nodes: ottla.testing.Cluster, topic: str, index: int = 0) -> bytes:
    """Waits until all three hold the same bytes, and returns them."""

    def are_equal() -> bool:
        return len({log_bytes(node, topic, index) for node in nodes.nodes}) == 1

    wait_until(are_equal, f"all replicas of {topic}-{index} are equal")
    return log_bytes(nodes.node(1), topic, index)


class Writer:
    """Produces with acks=all in the background and remembers what was acknowledged."""

    def __init__(self, nodes: ottla.testing.Cluster, topic: str, partitions: int) -> None:
        self.acknowledged: dict[int, dict[int, bytes]] = {index: {} for index in range(partitions)}
        # The offset of a record is unknown if it was already in the log when it was sent again.
        self.repeated: dict[int, set[bytes]] = {index: set() for index in range(partitions)}
        self.errors: list[ClientError] = []
        self._topic = topic
        self._is_stopped = False
        self._producer = Producer(
            {
                "bootstrap.servers": nodes.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, count: int) -> None:
        target = self.count + count
        wait_until(lambda: self.count >= target, f"{count} more records are acknowledged")

    def stop(self) -> None:
        self._is_stopped = True
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self.errors == []

    def _run(self) -> None:
        number = 0
        while not self._is_stopped:
            for index in self.acknowledged:
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        self._topic, f"{number}".encode(), partition=index, on_delivery=self._on_delivery
                    )
            number += 1
            self._producer.poll(0.001)

    def _on_delivery(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        if offset is None:
            self.repeated[partition].add(value)
        else:
            self.acknowledged[partition][offset] = value


def read_all(nodes: ottla.testing.Cluster, topic: str, index: int) -> dict[int, bytes]:
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": "none", "log_level": 0})
    try:
        place = TopicPartition(topic, index, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        records: dict[int, bytes] = {}
        deadline = time.monotonic() + 60
        while len(records) < end:
            assert time.monotonic() < deadline, f"{len(records)} of {end} records came"
            for message in consumer.consume(1_000, timeout=0.05):
                assert message.error() is None
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                records[offset] = value
        return records
    finally:
        consumer.close()


def test_no_acknowledged_record_is_lost_when_leaders_are_killed(nodes: ottla.testing.Cluster) -> None:
    topic, assignments = "killed", {0: [2, 3, 1], 1: [3, 2, 1], 2: [2, 1, 3], 3: [3, 1, 2]}
    create_topic(nodes.node(1), topic, assignments=assignments)
    writer = Writer(nodes, topic, len(assignments))
    try:
        for victim in (2, 3, 2, 3):
            writer.wait_for(2_000)
            nodes.node(victim).kill()
            survivors = [node_id for node_id in ALL if node_id != victim]
            for index in assignments:
                wait_in_sync(nodes, topic, survivors, index)
            writer.wait_for(500)
            nodes.node(victim).start()
            for index in assignments:
                wait_in_sync(nodes, topic, ALL, index)
    finally:
        writer.stop()
    for index, acknowledged in writer.acknowledged.items():
        wait_until_equal(nodes, topic, index)
        records = read_all(nodes, topic, index)
        assert [offset for offset, value in acknowledged.items() if records.get(offset) != value] == []
        assert writer.repeated[index] <= set(records.values())
        # The producer is idempotent: no record is stored twice or out of order.
        assert list(records.values()) == sorted(set(records.values()), key=int)


def test_a_blank_disk_is_filled_again(nodes: ottla.testing.Cluster) -> None:
    topic = "refilled"
    create_topic(nodes.node(1), topic, assignments={0: [1, 2, 3]}, configs={"segment.bytes": str(1 << 20)})
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "log_level": 0})
    for _ in range(3_000):
        producer.produce(topic, b"x" * 1_000)
    assert producer.flush(30) == 0
    wait_until_equal(nodes, topic)
    node = nodes.node(3)
    node.kill()
    _replace_disk(node)
    wait_in_sync(nodes, topic, [1, 2])
    producer.produce(topic, b"meanwhile")
    assert producer.flush(30) == 0
    node.start()
    wait_in_sync(nodes, topic, ALL)
    assert len(wait_until_equal(nodes, topic)) > 3_000_000
    assert len(list((node.directory / "data" / f"{topic}-0").glob("*.log"))) > 1


def test_too_few_replicas_refuse_and_come_back(nodes: ottla.testing.Cluster) -> None:
    topic = "few"
    create_topic(nodes.node(1), topic, assignments={0: [1, 2]})
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, b"before")
    assert producer.flush(30) == 0
    nodes.node(2).kill()
    wait_in_sync(nodes, topic, [1])
    hasty = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "retries": 0, "log_level": 0})
    errors: list[ClientError | None] = []
    hasty.produce(topic, b"refused", on_delivery=lambda error, _: errors.append(error))
    assert hasty.flush(30) == 0
    assert [error.code() for error in errors if error is not None] == [ClientError.NOT_ENOUGH_REPLICAS]
    # Consumers can still read.
    assert list(read_all(nodes, topic, 0).values()) == [b"before"]
    nodes.node(2).start()
    wait_in_sync(nodes, topic, [1, 2])
    producer.produce(topic, b"taken", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors[1:] == [None]
    assert list(read_all(nodes, topic, 0).values()) == [b"before", b"taken"]


def test_a_clean_stop_hands_over_and_comes_back(nodes: ottla.testing.Cluster) -> None:
    topic = "handed-over"
    create_topic(nodes.node(1), topic, assignments={0: [2, 3, 1], 1: [3, 2, 1]})
    writer = Writer(nodes, topic, 2)
    try:
        for node_id in (2, 3):
            writer.wait_for(200)
            nodes.node(node_id).stop()
            for index in range(2):
                wait_in_sync(nodes, topic, [other for other in ALL if other != node_id], index)
                assert partitions_of(nodes.node(1), topic)[index].leader_id != node_id
            writer.wait_for(200)
            nodes.node(node_id).start()
            for index in range(2):
                wait_in_sync(nodes, topic, ALL, index)
    finally:
        writer.stop()
    for index, acknowledged in writer.acknowledged.items():
        wait_until_equal(nodes, topic, index)
        records = read_all(nodes, topic, index)
        assert [offset for offset, value in acknowledged.items() if records.get(offset) != value] == []
        assert writer.repeated[index] <= set(records.values())


def test_a_follower_serves_no_old_consumer(nodes: ottla.testing.Cluster) -> None:
    topic = "followed"
    create_topic(nodes.node(1), topic, assignments={0: [1, 2, 3]})
    wait_until(lambda: bool(partitions_of(nodes.node(2), topic)), "the follower knows the topic")
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
    answer = ask(nodes.node(2), FetchRequest(topics=[wanted], max_bytes=1_000), 10)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_who_leads_is_told_with_the_refusal(nodes: ottla.testing.Cluster) -> None:
    """KIP-951: the refusal names the leader, so the client does not have to request metadata first."""
    topic = "elsewhere"
    create_topic(nodes.node(1), topic, assignments={0: [3, 1]})
    wait_until(lambda: bool(partitions_of(nodes.node(2), topic)), "every node knows the topic")
    records = memoryview(build_batch([Record(value=b"x")]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    topic_id = ask(nodes.node(2), MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0].topic_id
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
    host, port = nodes.node(3).address.split(":")
    produced = ask(nodes.node(2), ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]), 10)
    fetched = ask(nodes.node(2), FetchRequest(topics=[wanted], max_bytes=1_000), 16)
    refusals = [produced.responses[0].partition_responses[0], fetched.responses[0].partitions[0]]
    for answer, refusal in zip((produced, fetched), refusals, strict=True):
        assert refusal.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refusal.current_leader.leader_id == 3
        assert [
            (node_endpoint.node_id, node_endpoint.host, node_endpoint.port) for node_endpoint in answer.node_endpoints
        ] == [(3, host, int(port))]


def test_a_stranger_is_no_follower(nodes: ottla.testing.Cluster) -> None:
    topic = "strange"
    create_topic(nodes.node(1), topic, assignments={0: [1, 2]})
    wanted = FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
    answer = ask(nodes.node(1), FetchRequest(replica_id=3, topics=[wanted], max_bytes=1_000), 12)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def _replace_disk(node: ottla.testing.Node) -> None:
    """Replaces the disk: all data is gone. The node is a voter, so an operator has to format it for its cluster."""
    data = node.directory / "data"
    stored = dict(line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines() if "=" in line)
    shutil.rmtree(data)
    config = str(node.directory / "node.properties")
    program = [str(Path(sys.executable).parent / "ottla"), "storage", "format"]
    subprocess.run([*program, "--config", config, "--cluster-id", stored["cluster.id"]], check=True, timeout=60)


def test_the_end_of_a_partition_behind_an_unanswered_produce_request(nodes: ottla.testing.Cluster) -> None:
    """The next request of a connection sees records acknowledged with acks=all, even if both were sent together."""
    create_topic(nodes.node(1), "seen", assignments={0: ALL})
    leader = nodes.node(1)
    latest = ListOffsetsTopic(name="seen", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    with RawClient(leader.address) as client:
        for _ in range(20):
            client.send(produce_request("seen", batch("a"), acks=-1), 9)
            client.send(ListOffsetsRequest(topics=[latest]), 7)
            produced = client.receive().responses[0].partition_responses[0]
            listed = client.receive().topics[0].partitions[0]
            assert (produced.error_code, listed.error_code) == (0, 0)
            assert listed.offset == produced.base_offset + 1
