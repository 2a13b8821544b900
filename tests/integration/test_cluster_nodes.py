"""Three nodes, one cluster: a change that one node accepts reaches all nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of, wait_until
from tests.support.raw_client import RawClient

BROKER, TOPIC = 4, 2


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=1) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "every node knows all three")
        yield cluster


def controller_address(nodes: ottla.testing.Cluster) -> str:
    text = (nodes.node(1).directory / "node.properties").read_text()
    voters = next(line for line in text.splitlines() if line.startswith("controller.quorum.voters"))
    return voters.partition("@")[2]


def test_every_node_tells_the_same_brokers_and_cluster(nodes: ottla.testing.Cluster) -> None:
    answers = [ask(node, MetadataRequest(topics=[]), 12) for node in nodes.nodes]
    for answer in answers:
        addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
        assert addresses == {node.node_id: node.address for node in nodes.nodes}
    assert len({answer.cluster_id for answer in answers}) == 1
    described = ask(nodes.node(2), DescribeClusterRequest(), 2)
    assert described.cluster_id == answers[0].cluster_id
    assert [broker.broker_id for broker in described.brokers] == [1, 2, 3]


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_a_topic_created_through_any_node_is_known_to_all(nodes: ottla.testing.Cluster, node_id: int) -> None:
    name = f"through-{node_id}"
    create_topic(nodes.node(node_id), name, assignments={0: [1, 2, 3], 1: [3, 1, 2]}, configs={"retention.ms": "77777"})
    for node in nodes.nodes:
        wait_until(lambda node=node: len(partitions_of(node, name)) == 2, "the topic is known")
        partitions = partitions_of(node, name)
        assert (partitions[0].leader_id, partitions[0].replica_nodes, partitions[0].isr_nodes) == (
            1,
            [1, 2, 3],
            [1, 2, 3],
        )
        assert (partitions[1].leader_id, partitions[1].replica_nodes, partitions[1].isr_nodes) == (
            3,
            [3, 1, 2],
            [3, 1, 2],
        )
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"])
        (result,) = ask(node, DescribeConfigsRequest(resources=[resource]), 4).results
        assert [entry.value for entry in result.configs] == ["77777"]


def test_a_forwarded_request_is_answered_in_the_clients_own_version(nodes: ottla.testing.Cluster) -> None:
    for version in range(2, 8):
        topic = CreatableTopic(name=f"version-{version}", num_partitions=1, replication_factor=1)
        (answer,) = ask(nodes.node(3), CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version).topics
        assert answer.error_code == 0
        (answer,) = ask(nodes.node(2), CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version).topics
        assert answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_administration_with_a_client_through_a_node_that_is_no_controller(nodes: ottla.testing.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.node(3).address})
    admin.create_topics([NewTopic("administered", 1, 3)])["administered"].result(30)
    admin.create_partitions([NewPartitions("administered", 4)])["administered"].result(30)
    change = ConfigEntry("max.message.bytes", "4242", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "administered", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    for node in nodes.nodes:
        wait_until(lambda node=node: len(partitions_of(node, "administered")) == 4, "partitions were added")
        described = DescribeConfigsResource(
            resource_type=TOPIC, resource_name="administered", configuration_keys=["max.message.bytes"]
        )

        def is_changed(node: ottla.testing.Node = node, described: DescribeConfigsResource = described) -> bool:
            (result,) = ask(node, DescribeConfigsRequest(resources=[described]), 4).results
            return [entry.value for entry in result.configs] == ["4242"]

        wait_until(is_changed, "the topic's configuration is changed")
    admin.delete_topics(["administered"])["administered"].result(30)
    for node in nodes.nodes:
        wait_until(lambda node=node: not partitions_of(node, "administered"), "the topic is gone")


def test_a_brokers_own_settings_change_through_that_broker(nodes: ottla.testing.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    change = ConfigEntry("log.retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "2", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)

    def setting_of(node_id: int) -> str:
        described = DescribeConfigsResource(
            resource_type=BROKER, resource_name=str(node_id), configuration_keys=["log.retention.ms"]
        )
        (result,) = ask(nodes.node(node_id), DescribeConfigsRequest(resources=[described]), 4).results
        return str(result.configs[0].value)

    wait_until(lambda: setting_of(2) == "123456", "broker 2 has its setting")
    assert setting_of(3) != "123456"


def test_producer_ids_are_unique_over_all_brokers(nodes: ottla.testing.Cluster) -> None:
    producer_ids = [
        ask(node, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4).producer_id
        for _ in range(5)
        for node in nodes.nodes
    ]
    assert -1 not in producer_ids
    assert len(set(producer_ids)) == len(producer_ids)
    assert len({producer_id // 1000 for producer_id in producer_ids}) == 3


def test_the_quorum_is_described_by_every_node_with_its_observers(nodes: ottla.testing.Cluster) -> None:
    request = DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])]
    )
    for node in nodes.nodes:
        (partition,) = ask(node, request, 2).topics[0].partitions
        assert partition.leader_id == 1
        assert [voter.replica_id for voter in partition.current_voters] == [1]
        assert [observer.replica_id for observer in partition.observers] == [2, 3]
        assert all(observer.last_caught_up_timestamp > 0 for observer in partition.observers)


def test_the_controllers_listener_serves_controllers_apis_and_nothing_else(nodes: ottla.testing.Cluster) -> None:
    with RawClient(controller_address(nodes)) as client:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        advertised = {row.api_key for row in client.call(request, 3).api_keys}
        assert {1, 18, 19, 55, 56, 58, 59, 60, 62, 63, 67} <= advertised
        # Produce, Metadata, ListOffsets.
        assert not advertised & {0, 2, 3}
        described = client.call(DescribeClusterRequest(endpoint_type=2), 2)
        assert (described.error_code, described.controller_id) == (0, 1)
        assert [broker.broker_id for broker in described.brokers] == [1]
        topic = CreatableTopic(name="through-the-controller", num_partitions=1, replication_factor=2)
        (created,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
        assert created.error_code == 0
    wait_until(lambda: bool(partitions_of(nodes.node(3), "through-the-controller")), "the topic is known")


def test_a_client_that_means_another_node_is_sent_away(nodes: ottla.testing.Cluster) -> None:
    """KIP-1242: the ids are the cluster id and the node id of the metadata response."""
    cluster_id = ask(nodes.node(1), DescribeClusterRequest(), 2).cluster_id

    def code(recipient: int, meant: int) -> int:
        request = ApiVersionsRequest(
            client_software_name="test", client_software_version="1", cluster_id=cluster_id, node_id=meant
        )
        return int(ask(nodes.node(recipient), request, 5).error_code)

    assert [code(2, 2), code(2, 3)] == [ErrorCode.NONE, ErrorCode.REBOOTSTRAP_REQUIRED]


def test_the_metadata_log_is_not_given_to_another_cluster(nodes: ottla.testing.Cluster) -> None:
    with RawClient(controller_address(nodes)) as client:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            cluster_id="another", topics=[FetchTopic(topic="__cluster_metadata", partitions=[partition])]
        )
        assert client.call(request, 12).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        request.cluster_id = None
        (answer,) = client.call(request, 12).responses[0].partitions
        assert answer.error_code == 0
        assert len(answer.records) > 0
        request.topics[0].topic = "something-else"
        assert client.call(request, 12).error_code == ErrorCode.INVALID_REQUEST


def test_a_second_process_with_the_id_of_a_living_node_is_refused(nodes: ottla.testing.Cluster, tmp_path: Path) -> None:
    text = (nodes.node(3).directory / "node.properties").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("listeners", "log.dirs"))]
    # The node waits for the end of the other session for its own session timeout.
    lines += ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path / 'data'}", "broker.session.timeout.ms=600"]
    (tmp_path / "second.properties").write_text("\n".join(lines))
    command = [sys.executable, "-m", "ottla.cli.main", "node", "--config", str(tmp_path / "second.properties")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert "ottla: Another process runs as broker 3: each node.id may be used only once." in second.stderr
    assert "Traceback" not in second.stderr
    assert broker_ids(nodes.node(1)) == [1, 2, 3]
