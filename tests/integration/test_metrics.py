"""Metrics, health and log levels of a running cluster, as Prometheus and an administrator see them."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

import ottla.testing
from ottla.broker.metrics.table import METRICS
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.metadata import MetadataRequest
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of, wait_until
from tests.integration.data_path import batch, produce_request
from tests.support.raw_client import RawClient

SETTINGS = {
    "ottla.metrics.listener": "127.0.0.1:0",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
BROKER_LOGGER = 8
SET, DELETE = 0, 1

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "every node knows all three")
        yield cluster


def get(node: ottla.testing.Node, path: str) -> str:
    assert node.metrics_url is not None
    with urllib.request.urlopen(node.metrics_url.removesuffix("/metrics") + path, timeout=20) as answer:
        text = answer.read().decode()
    assert isinstance(text, str)
    return text


def scrape(node: ottla.testing.Node) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(get(node, "/metrics"))
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def total(cluster: ottla.testing.Cluster, name: str) -> float:
    """The sum over all running nodes and all labels."""
    return sum(
        number
        for node in cluster.nodes
        if node.running
        for (sample_name, _), number in scrape(node).items()
        if sample_name == name
    )


def produce(cluster: ottla.testing.Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(count):
        producer.produce(topic, value=b"x" * 100, key=str(number).encode())
    assert producer.flush(30) == 0


def consume(cluster: ottla.testing.Cluster, topic: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(3)])
    for _ in range(count):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
    consumer.close()


def test_a_scrape_tells_what_the_node_does(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "busy", partitions=3, replication_factor=3)
    produce(nodes, "busy", 100)
    assert total(nodes, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    scraped = [scrape(node) for node in nodes.nodes]
    broker_wide = [value(samples, "kafka_server_brokertopicmetrics_messagesin_total") for samples in scraped]
    assert sum(broker_wide) >= 100
    by_topic = [value(samples, "kafka_server_brokertopicmetrics_messagesin_total", topic="busy") for samples in scraped]
    assert sum(by_topic) == 100
    assert all(of_topic <= of_all for of_topic, of_all in zip(by_topic, broker_wide, strict=True))
    for samples, written in zip(scraped, by_topic, strict=True):
        assert (value(samples, "kafka_server_brokertopicmetrics_bytesin_total", topic="busy") > 0) == (written > 0)
        assert value(samples, "kafka_server_replicamanager_partitioncount") >= 3
        assert value(samples, "ottla_request_seconds_count", request="FetchFollower", phase="total") > 0
        assert value(samples, "kafka_server_socket_server_metrics_connection_count", listener="PLAINTEXT") >= 1
        assert 0 <= value(samples, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") <= 1
        assert value(samples, "process_resident_memory_bytes") > 10_000_000
        assert value(samples, "ottla_event_loop_delay_seconds_count") >= 0
    ends = [
        sum(value(samples, "kafka_log_log_logendoffset", topic="busy", partition=str(n)) for n in range(3))
        for samples in scraped
    ]
    assert max(ends) == 100
    # Bytes out count every read of a record; replication has its own metric.
    bytes_in = sum(value(samples, "kafka_server_brokertopicmetrics_bytesin_total", topic="busy") for samples in scraped)

    def bytes_out() -> float:
        key = ("kafka_server_brokertopicmetrics_bytesout_total", frozenset({("topic", "busy")}))
        return sum(scrape(node).get(key, 0) for node in nodes.nodes)

    assert bytes_out() == 0
    for times in (1, 2):
        consume(nodes, "busy", 100)
        assert bytes_out() >= times * bytes_in


def test_partitions_and_their_leaders_are_counted(nodes: ottla.testing.Cluster) -> None:
    def counted() -> tuple[float, float]:
        return (
            total(nodes, "kafka_server_replicamanager_partitioncount"),
            total(nodes, "kafka_server_replicamanager_leadercount"),
        )

    partitions, leaders = counted()
    create_topic(nodes.node(1), "counted", partitions=2, replication_factor=3)
    wait_until(lambda: counted() == (partitions + 6, leaders + 2), "six replicas and two leaders more are counted")


def test_an_idempotent_producer_asks_for_its_id_once(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "numbered", partitions=3, replication_factor=3)

    def request_count() -> float:
        return sum(
            number
            for node in nodes.nodes
            for (name, labels), number in scrape(node).items()
            if name == "kafka_network_requestmetrics_requests_total" and ("request", "InitProducerId") in labels
        )

    before = request_count()
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True})
    for number in range(30):
        producer.produce("numbered", value=b"x", partition=number % 3)
        assert producer.flush(30) == 0
    assert request_count() - before == 1


def test_an_answer_behind_a_parked_one_waits_in_the_response_queue(nodes: ottla.testing.Cluster) -> None:
    """Produce requests overlap: the second, with acks=1, is done at once, while the first waits for a replica."""
    node, replica = nodes.node(1), nodes.node(2)
    create_topic(node, "replicated", assignments={0: [1, 2]})

    def waited() -> float:
        return value(scrape(node), "kafka_network_requestmetrics_responsequeuetimems_sum", request="Produce")

    with RawClient(node.address) as client:

        def is_led() -> bool:
            answer = client.call(produce_request("replicated", batch("a")), 9).responses[0].partition_responses[0]
            return answer.error_code == 0

        wait_until(is_led, "the leader knows of its lead")
        before = waited()
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            client.send(produce_request("replicated", batch("b"), acks=-1, timeout_ms=1500), 9)
            client.send(produce_request("replicated", batch("c"), acks=1), 9)
            client.receive()
            client.receive()
        finally:
            os.kill(replica.pid, signal.SIGCONT)
        # Most of the first request's wait: the test may be slow between the two requests.
        assert 200 < waited() - before < 60_000


def test_only_what_is_in_the_table_is_told(nodes: ottla.testing.Cluster) -> None:
    families = list(text_string_to_metric_families(get(nodes.node(1), "/metrics")))
    known = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    for family in families:
        metric = known[family.name]
        assert family.type == metric.kind.value
        allowed = {*metric.labels, "le", "quantile"}
        assert all(allowed.issuperset(sample.labels) for sample in family.samples)
    assert len(families) > 80


def test_lag_of_a_group_is_told_wherever_it_is_coordinated(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "lagging", partitions=3, replication_factor=3)
    produce(nodes, "lagging", 60)
    settings = {"bootstrap.servers": nodes.bootstrap, "group.id": "late ones", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("lagging", index, 1) for index in range(3)], asynchronous=False)
    consumer.close()
    name = "kafka_consumergroup_lag"

    def lag() -> float:
        return sum(
            number
            for node in nodes.nodes
            for (sample_name, labels), number in scrape(node).items()
            if sample_name == name and ("consumergroup", "late ones") in labels
        )

    wait_until(lambda: lag() == 57, "three of sixty records are committed")
    assert total(nodes, "kafka_consumergroup_current_offset") >= 3
    assert total(nodes, "ottla_offset_commit_requests_total") >= 1
    assert total(nodes, "ottla_coordinator_batches_total") >= 1
    assert total(nodes, "ottla_coordinator_partitions") >= 3
    assert total(nodes, "kafka_server_group_coordinator_metrics_group_count") >= 1


def test_replicas_behind_and_rebalances_are_counted(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "shared", partitions=3, replication_factor=3)
    rebalances = "ottla_group_rebalances_total"
    before = total(nodes, rebalances)
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": "churn", "auto.offset.reset": "earliest"})
    consumer.subscribe(["shared"])
    wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 3, "it has its partitions")
    consumer.close()
    assert total(nodes, rebalances) > before
    # A leader shows how far each of its two followers is behind.
    replica_ids = {
        dict(labels)["replica"]
        for node in nodes.nodes
        for (name, labels), _ in scrape(node).items()
        if name == "ottla_replica_max_lag"
    }
    assert replica_ids == {"1", "2", "3"}
    wait_until(lambda: total(nodes, "ottla_replica_max_lag") == 0, "all have everything")


def test_the_request_log_and_levels_change_while_the_node_runs(nodes: ottla.testing.Cluster) -> None:
    node = nodes.node(2)

    def change(logger: str, operation: int, level: str | None) -> int:
        resource = AlterConfigsResource(
            resource_type=BROKER_LOGGER,
            resource_name="2",
            configs=[AlterableConfig(name=logger, config_operation=operation, value=level)],
        )
        (answer,) = ask(node, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return int(answer.error_code)

    ask(node, MetadataRequest(topics=[]), 12)
    assert "request=Metadata" not in node.output
    assert change("kafka.request.logger", SET, "DEBUG") == 0
    ask(node, MetadataRequest(topics=[]), 12)
    wait_until(lambda: "request=Metadata version=12" in node.output, "the request is in the log")
    assert change("kafka.request.logger", DELETE, None) == 0
    line_count = node.output.count("request=Metadata version=12")
    ask(node, MetadataRequest(topics=[]), 12)
    ask(node, MetadataRequest(topics=[]), 12)
    assert node.output.count("request=Metadata version=12") <= line_count + 1
    assert change("ottla.nothing", SET, "DEBUG") != 0


def test_a_dead_node_is_seen_and_forgotten_when_it_is_back(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "watched", partitions=3, replication_factor=3)
    create_topic(nodes.node(1), "alone", assignments={0: [3]})
    produce(nodes, "watched", 30)
    under = "kafka_server_replicamanager_underreplicatedpartitions"
    wait_until(lambda: total(nodes, under) == 0, "all are in sync")
    nodes.node(3).kill()
    wait_until(lambda: total(nodes, under) >= 3, "the dead node is missed")
    wait_until(lambda: total(nodes, "kafka_controller_kafkacontroller_fencedbrokercount") == 1, "it is fenced")
    offline = "kafka_controller_kafkacontroller_offlinepartitionscount"
    wait_until(lambda: total(nodes, offline) == 1, "what only it has is offline")
    named = {
        dict(labels)["topic"]
        for node in nodes.nodes[:2]
        for (name, labels), number in scrape(node).items()
        if name == "kafka_cluster_partition_underreplicated" and number
    }
    assert "watched" in named
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    wait_until(lambda: total(nodes, active) == 1, "one of the others is the controller")
    nodes.node(3).start()
    wait_until(lambda: total(nodes, under) == 0, "all are in sync again")
    # The nodes learn of the change at different times: a leader from the controller's answer, others from the metadata.
    expanded = "kafka_server_replicamanager_isrexpands_total"
    wait_until(lambda: total(nodes, expanded) >= 3, "the leaders have let it in again")
    wait_until(lambda: len(partitions_of(nodes.node(1), "watched")[0].isr_nodes) == 3, "node 1 knows it")


def test_health(nodes: ottla.testing.Cluster) -> None:
    node = nodes.node(1)
    assert get(node, "/health/live") == "live\n"
    assert get(node, "/health/ready") == "ready\n"
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(node, "/nothing")
    refused.value.close()
    assert refused.value.code == 404


def test_without_the_setting_nothing_is_told() -> None:
    with ottla.testing.cluster() as cluster:
        assert cluster.node(1).metrics_url is None
