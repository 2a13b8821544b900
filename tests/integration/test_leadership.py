"""Leadership on three real nodes: preferred leaders return automatically, and unclean elections must be enabled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import ottla.testing
from ottla.client import blocking
from ottla.client.consumer import ConsumerSettings
from ottla.client.errors import LogTruncated
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.ids import TopicPartition as Place
from tests.integration.cluster_calls import broker_ids, create_topic, partitions_of, wait_until

# All nodes stop in order, so no session has to be short. A stopping node waits until the heartbeats of the other nodes
# show that they have replayed the change.
SETTINGS = {"leader.imbalance.check.interval.seconds": "1", "broker.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=1, settings=SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "every node knows all three")
        yield cluster


def leader_and_isr(nodes: ottla.testing.Cluster, topic: str) -> tuple[int, list[int]]:
    partition = partitions_of(nodes.node(1), topic)[0]
    return partition.leader_id, sorted(partition.isr_nodes)


def set_config(nodes: ottla.testing.Cluster, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.node(1).address})
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)


def produce(nodes: ottla.testing.Cluster, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "log_level": 0})
    errors: list[object] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def read_all(nodes: ottla.testing.Cluster, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=60)]
    finally:
        consumer.close()


def reader_of(nodes: ottla.testing.Cluster, place: Place, policy: str) -> blocking.BlockingConsumer:
    """A consumer of `ottla.client` that reads from the beginning."""
    consumer = blocking.BlockingConsumer(
        ClientSettings(bootstrap_servers=parse_bootstrap(nodes.bootstrap)),
        ConsumerSettings(auto_offset_reset=policy, fetch_max_wait_ms=50),
    )
    consumer.assign([place])
    consumer.seek(place, 0)
    return consumer


def read_some(consumer: blocking.BlockingConsumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count and (records := consumer.poll(20_000)):
        values += [record.value for record in records]
    return values


def test_leadership_goes_back_to_the_preferred_replica_once_it_is_in_sync(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "drifting", assignments={0: [2, 3]})
    nodes.node(2).stop()
    wait_until(lambda: leader_and_isr(nodes, "drifting") == (3, [3]), "3 leads alone")
    nodes.node(2).start()
    wait_until(lambda: leader_and_isr(nodes, "drifting") == (2, [2, 3]), "2 leads again")


def test_without_a_replica_in_sync_a_partition_waits_unless_an_unclean_election_is_allowed(
    nodes: ottla.testing.Cluster,
) -> None:
    # A record that is acknowledged with two required replicas is on both, even if one was out of sync for a moment.
    create_topic(nodes.node(1), "risky", assignments={0: [2, 3]}, configs={"min.insync.replicas": "2"})
    produce(nodes, "risky", b"both")
    set_config(nodes, "risky", "min.insync.replicas", "1")
    nodes.node(3).stop()
    wait_until(lambda: leader_and_isr(nodes, "risky") == (2, [2]), "2 is alone in sync")
    produce(nodes, "risky", b"only on 2")
    place, readers = Place("risky", 0), ExitStack()
    follower, strict = (readers.enter_context(reader_of(nodes, place, policy)) for policy in ("latest", "none"))
    assert read_some(follower, 2) == read_some(strict, 2) == [b"both", b"only on 2"]
    nodes.node(2).stop()
    nodes.node(3).start()
    wait_until(lambda: broker_ids(nodes.node(1)) == [1, 3], "3 is back, 2 is away")
    # Node 3 misses an acknowledged record, so it must not become leader automatically.
    assert leader_and_isr(nodes, "risky")[0] == -1
    set_config(nodes, "risky", "unclean.leader.election.enable", "true")
    wait_until(lambda: leader_and_isr(nodes, "risky") == (3, [3]), "3 leads although it missed something")
    produce(nodes, "risky", b"only on 3")
    assert read_all(nodes, "risky", 2) == [b"both", b"only on 3"]
    # A consumer that has read a lost record notices it, although another record has the same offset.
    with readers:
        assert read_some(follower, 1) == [b"only on 3"]
        with pytest.raises(LogTruncated) as raised:
            read_some(strict, 1)
        assert (raised.value.partition, raised.value.position, raised.value.end) == (place, 2, (0, 1))
    nodes.node(2).start()
    wait_until(lambda: leader_and_isr(nodes, "risky") == (2, [2, 3]), "2 has given up its record and leads again")
    assert read_all(nodes, "risky", 2) == [b"both", b"only on 3"]
