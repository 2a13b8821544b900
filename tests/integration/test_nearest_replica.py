"""librdkafka reads from the follower in its rack (KIP-392)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla.testing
from tests.integration.cluster_calls import broker_ids, create_topic, wait_until
from tests.support.reading import records_of

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    racks = {node_id: {"broker.rack": f"rack-{node_id}"} for node_id in (1, 2, 3)}
    with ottla.testing.cluster(nodes=3, settings={"replica.selector.class": SELECTOR}, node_settings=racks) as cluster:
        wait_until(lambda: broker_ids(cluster.node(1)) == [1, 2, 3], "all three are there")
        yield cluster


@pytest.mark.parametrize("rack", ["rack-2", "rack-3"])
def test_librdkafka_reads_from_the_follower_of_its_rack(nodes: ottla.testing.Cluster, rack: str) -> None:
    topic = f"near-{rack}"
    create_topic(nodes.node(1), topic, assignments={0: [1, 2, 3]})
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "log_level": 0})
    read_from: list[int] = []

    def on_statistics(text: str) -> None:
        partitions = json.loads(text)["topics"].get(topic, {}).get("partitions", {})
        read_from.append(partitions.get("0", {}).get("broker", -1))

    consumer = Consumer(
        {
            "bootstrap.servers": nodes.bootstrap,
            "group.id": "none",
            "client.rack": rack,
            "statistics.interval.ms": 50,
            "stats_cb": on_statistics,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        for number in range(1_000):
            producer.produce(topic, str(number))
        assert producer.flush(60) == 0

        def read_on() -> bool:
            values.extend(message.value() or b"" for message in records_of(consumer.consume(1_000, timeout=0.05)))
            return len(values) >= 1_000 and read_from[-1:] == [int(rack[-1])]

        wait_until(read_on, f"everything is read, from {rack}")
        # New records come from the follower, too.
        for number in range(1_000, 1_100):
            producer.produce(topic, str(number))
            producer.flush(60)
        wait_until(lambda: read_on() and len(values) >= 1_100, "the rest is read")
        assert values == [str(number).encode() for number in range(1_100)]
        assert read_from[-1] == int(rack[-1])
    finally:
        consumer.close()
