"""Metadata, topic administration, producer ids, cluster and quorum as handlers answer them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_quorum,
    describe_topic_partitions,
    init_producer_id,
    metadata,
    update_features,
)
from ottla.broker.authorization import AllowAll, Operation, ResourceType
from ottla.broker.context import ConnectionContext, ListenerInfo, RequestContext
from ottla.broker.internal_topics import automatic_topic
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.topic_answers import TopicAnswers
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.model.slices import Slices
from ottla.wire.codec import decode, encode
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages import describe_topic_partitions as dtp
from ottla.wire.messages.broker_registration import Listener
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.packed import PackedResponse
from tests.unit.metadata.harness import CLUSTER_ID, ControllerHarness

UNKNOWN_ID = Uuid(b"0123456789abcdef")


class Denying(AllowAll):
    """Allows everything except the listed (operation, type, name)."""

    def __init__(self, *denied: tuple[Operation, ResourceType, str]) -> None:
        self.denied = denied

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return (operation, resource_type, resource_name) not in self.denied

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return (operation, resource_type, "") not in self.denied


class Node:
    """A broker as far as these handlers need one, on a controller in memory."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        self.harness = ControllerHarness(properties=properties)
        self.harness.add_broker(1)
        self.broker: Any = SimpleNamespace(
            config=self.harness.config,
            world=self.harness.world,
            node_id=1,
            cluster_id=CLUSTER_ID,
            metadata=self.harness.controller.publishers,
            controller=self.harness.controller,
            producer_ids=ProducerIds(self.harness.controller, self.harness.controller.publishers, 1),
            local_controller=self.harness.controller,
            topics_in_creation=set(),
            topic_answers=TopicAnswers(),
            quorum=self.harness.quorum,
            replicas=SimpleNamespace(slices=Slices(self.harness.world.scheduler)),
        )

    def call(
        self, module: Any, request: Any, version: int, *, authorizer: Any = None, listener: str = "PLAINTEXT"
    ) -> Any:
        """Through the codec both ways, as a client would see it."""
        info = ListenerInfo(
            name=listener, security_protocol="PLAINTEXT", host="h", port=1, advertised_host="h", advertised_port=1
        )
        connection = ConnectionContext(listener=info, client_host="h", client_port=2, authorizer=authorizer)
        context = RequestContext(request.API_KEY, version, 1, "test", connection, 0)
        received, _ = decode(type(request), memoryview(encode(request, version)), version)
        response = module.handle(received, context, self.broker)
        if isinstance(response, Deferred):
            # Long answers take several turns.
            self.harness.virtual.scheduler.run()
            response = response.result()
        if isinstance(response, PackedResponse):
            return decode(module.API.response, memoryview(b"".join(response.body)), version)[0]
        return decode(type(response), memoryview(encode(response, version)), version)[0]


@pytest.fixture
def node() -> Node:
    node = Node()
    node.harness.create("orders", 3)
    node.harness.create("clicks", 2)
    return node


def asked(*names: str, allow_auto_topic_creation: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=allow_auto_topic_creation)


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_named_topics(node: Node, version: int) -> None:
    response = node.call(metadata, asked("orders"), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "127.0.0.1", 9093)]
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "orders")
    partitions = [(part.partition_index, part.leader_id, part.isr_nodes) for part in topic.partitions]
    assert partitions == [
        (0, 1, [1]),
        (1, 1, [1]),
        (2, 1, [1]),
    ]
    assert bool(topic.topic_id) == (version >= 10)
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)


def test_an_empty_list_means_everything_only_in_version_0(node: Node) -> None:
    assert [topic.name for topic in node.call(metadata, asked(), 0).topics] == ["clicks", "orders"]
    for version in range(1, 14):
        assert node.call(metadata, asked(), version).topics == []
        everything = node.call(metadata, MetadataRequest(topics=None), version).topics
        assert [topic.name for topic in everything] == ["clicks", "orders"]


def test_a_missing_topic_is_created_for_the_next_request(node: Node) -> None:
    first = node.call(metadata, asked("new"), 12).topics[0]
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert node.call(metadata, asked("new"), 12).topics[0].error_code == ErrorCode.NONE


def test_internal_topics_are_created_with_their_own_settings() -> None:
    node = Node({"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "1"})
    node.call(metadata, asked("__consumer_offsets"), 12)
    topic = node.call(metadata, asked("__consumer_offsets"), 12).topics[0]
    assert (topic.is_internal, len(topic.partitions)) == (True, 7)
    assert node.harness.image.configs.of_topic("__consumer_offsets")["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, (-1, -1)),
        ({"num.partitions": "1"}, (1, -1)),
        ({"default.replication.factor": "1"}, (-1, 1)),
        ({"num.partitions": "5", "default.replication.factor": "2"}, (5, 2)),
    ],
)
def test_an_automatic_topic_has_the_controllers_defaults_unless_the_broker_sets_its_own(
    properties: dict[str, str], expected: tuple[int, int]
) -> None:
    topic = automatic_topic("new", BrokerConfig.embedded(properties))
    assert (topic.num_partitions, topic.replication_factor) == expected


@pytest.mark.parametrize(
    ("properties", "allowed"), [({"auto.create.topics.enable": "false"}, True), ({}, False)], ids=["broker", "client"]
)
def test_topics_are_not_created_unless_both_sides_agree(properties: dict[str, str], allowed: bool) -> None:
    node = Node(properties)
    for _ in range(2):
        response = node.call(metadata, asked("new", allow_auto_topic_creation=allowed), 12)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_under_way_is_not_asked_for_again(node: Node) -> None:
    workers = node.harness.virtual.workers
    workers.immediate = False
    for _ in range(3):
        node.call(metadata, asked("new"), 12)
    assert len(workers.tasks) == 1
    workers.run_all()
    assert node.call(metadata, asked("new"), 12).topics[0].error_code == 0
    assert node.broker.topics_in_creation == set()


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 250])
def test_a_name_that_no_topic_can_have(node: Node, name: str) -> None:
    assert node.call(metadata, asked(name), 12).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_are_asked_for_by_id_since_version_12(node: Node) -> None:
    orders = node.harness.image.topics.by_name["orders"].topic_id
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(name=None, topic_id=orders),
            MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID),
        ]
    )
    known, unknown = node.call(metadata, request, 12).topics
    assert (known.error_code, known.name) == (ErrorCode.NONE, "orders")
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, UNKNOWN_ID)
    with pytest.raises(KafkaError, match="version 11"):
        node.call(metadata, MetadataRequest(topics=[MetadataRequestTopic(name="orders", topic_id=orders)]), 11)
    with pytest.raises(KafkaError, match="neither name nor id"):
        node.call(metadata, MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 12)


def test_each_listener_is_told_its_own_addresses(node: Node) -> None:
    listeners = [
        Listener(name="PLAINTEXT", host="inside", port=1000),
        Listener(name="EXTERNAL", host="outside", port=2000),
    ]
    node.harness.virtual.clock.ms += 60_000
    node.harness.add_broker(1, incarnation=2, listeners=listeners)
    for listener, host in (("PLAINTEXT", "inside"), ("EXTERNAL", "outside")):
        assert node.call(metadata, asked("orders"), 12, listener=listener).brokers[0].host == host
    for version, code in ((5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)):
        response = node.call(metadata, asked("orders"), version, listener="ELSEWHERE")
        assert response.brokers == []
        assert response.topics[0].partitions[0].error_code == code
        assert response.topics[0].partitions[0].leader_id == -1
        assert response.topics[0].partitions[0].offline_replicas == [1]


def test_replicas_that_are_down(node: Node) -> None:
    node.harness.add_broker(2)
    assignment = ct.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    node.harness.create("pair", -1, -1, assignments=[assignment])
    node.harness.beat(2, want_fence=True)
    oldest = node.call(metadata, asked("pair"), 0).topics[0].partitions[0]
    assert (oldest.error_code, oldest.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1])
    newer = node.call(metadata, asked("pair"), 5).topics[0].partitions[0]
    assert (newer.error_code, newer.replica_nodes, newer.offline_replicas) == (ErrorCode.NONE, [1, 2], [2])
    assert [broker.node_id for broker in node.call(metadata, asked("pair"), 5).brokers] == [1]


def test_a_partition_without_leader(node: Node) -> None:
    node.harness.beat(1, want_fence=True)
    partition = node.call(metadata, asked("orders"), 12).topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_what_may_not_be_described_is_not_disclosed(node: Node) -> None:
    orders = node.harness.image.topics.by_name["orders"].topic_id
    denying = Denying((Operation.DESCRIBE, ResourceType.TOPIC, "orders"))
    everything = node.call(metadata, MetadataRequest(topics=None), 12, authorizer=denying).topics
    assert [topic.name for topic in everything] == ["clicks"]
    named = node.call(metadata, asked("orders"), 12, authorizer=denying).topics[0]
    assert (named.error_code, named.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Uuid.ZERO)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=orders)])
    answer = node.call(metadata, by_id, 12, authorizer=denying).topics[0]
    assert (answer.error_code, answer.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_who_may_not_create_creates_nothing(node: Node) -> None:
    denying = Denying(
        (Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster"), (Operation.CREATE, ResourceType.TOPIC, "new")
    )
    response = node.call(metadata, asked("new"), 12, authorizer=denying)
    assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    request = ct.CreateTopicsRequest(
        topics=[ct.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("new", "other")]
    )
    results = node.call(create_topics, request, 7, authorizer=denying).topics
    assert {result.name: result.error_code for result in results} == {
        "new": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "other": ErrorCode.NONE,
    }
    assert "new" not in node.harness.image.topics.by_name


def test_operations_are_told_on_demand(node: Node) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="orders")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = node.call(metadata, request, 8)
    assert response.topics[0].topic_authorized_operations == 3576
    assert response.cluster_authorized_operations > 0
    assert node.call(metadata, asked("orders"), 8).topics[0].topic_authorized_operations == -(1 << 31)


def test_operations_are_told_to_whom_has_asked_for_them(node: Node) -> None:
    node.harness.create("large", 40)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="large")], include_topic_authorized_operations=True)
    assert node.call(metadata, request, 12).topics[0].topic_authorized_operations == 3576
    assert node.call(metadata, asked("large"), 12).topics[0].topic_authorized_operations == -(1 << 31)


def test_configurations_are_shown_to_whom_may_see_them(node: Node) -> None:
    request = ct.CreateTopicsRequest(topics=[ct.CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    denying = Denying((Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "new"))
    result = node.call(create_topics, request, 7, authorizer=denying).topics[0]
    assert (result.error_code, result.topic_config_error_code) == (
        ErrorCode.NONE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    assert (result.num_partitions, result.configs) == (-1, [])


def test_deleting_needs_the_right_to(node: Node) -> None:
    orders = node.harness.image.topics.by_name["orders"].topic_id
    cluster = (Operation.DELETE, ResourceType.CLUSTER, "kafka-cluster")
    may_see = Denying(cluster, (Operation.DELETE, ResourceType.TOPIC, "orders"))
    may_not_see = Denying(*may_see.denied, (Operation.DESCRIBE, ResourceType.TOPIC, "orders"))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=orders)])
    for authorizer, name in ((may_see, "orders"), (may_not_see, None)):
        result = node.call(delete_topics, request, 6, authorizer=authorizer).responses[0]
        assert (result.error_code, result.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    assert node.call(delete_topics, request, 6, authorizer=Denying(cluster)).responses[0].error_code == ErrorCode.NONE
    assert "orders" not in node.harness.image.topics.by_name


def test_a_name_with_an_id_does_not_excuse_a_deletion_from_the_check_of_rights(node: Node) -> None:
    cluster = (Operation.DELETE, ResourceType.CLUSTER, "kafka-cluster")
    topic = (Operation.DELETE, ResourceType.TOPIC, "orders")
    described = (Operation.DESCRIBE, ResourceType.TOPIC, "orders")
    decoy = DeleteTopicState(name="orders", topic_id=UNKNOWN_ID)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders"), decoy])
    for authorizer in (Denying(cluster, topic), Denying(cluster, topic, described)):
        results = node.call(delete_topics, request, 6, authorizer=authorizer).responses
        codes = sorted(result.error_code for result in results)
        assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST]
        assert "orders" in node.harness.image.topics.by_name


def test_a_topic_that_is_not_committed_is_not_deleted_without_the_right_to(node: Node) -> None:
    """The controller sees uncommitted topics; the authorization check does not."""
    denying = Denying(
        (Operation.DELETE, ResourceType.CLUSTER, "kafka-cluster"), (Operation.DELETE, ResourceType.TOPIC, "new")
    )
    forwarded_topics: list[Any] = []

    def ask(request: Any, _context: Any) -> Deferred[Any]:
        forwarded_topics.extend(request.topics)
        return Deferred.resolved(DeleteTopicsResponse())

    node.broker.controller = SimpleNamespace(ask=ask)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="new")])
    (result,) = node.call(delete_topics, request, 6, authorizer=denying).responses
    assert (result.error_code, forwarded_topics) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_adding_partitions_needs_the_right_to(node: Node) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=5, assignments=None) for name in ("orders", "clicks")]
    )
    denying = Denying((Operation.ALTER, ResourceType.TOPIC, "orders"))
    results = node.call(create_partitions, request, 3, authorizer=denying).results
    assert {result.name: result.error_code for result in results} == {
        "orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "clicks": ErrorCode.NONE,
    }


def test_the_cluster_is_described(node: Node) -> None:
    node.harness.add_broker(2, unfence=False)
    response = node.call(describe_cluster, DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert [(broker.broker_id, broker.is_fenced) for broker in response.brokers] == [(1, False)]
    assert response.cluster_authorized_operations > 0
    fenced_too = node.call(describe_cluster, DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [(broker.broker_id, broker.is_fenced) for broker in fenced_too.brokers] == [(1, False), (2, True)]
    for endpoint_type, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        request = DescribeClusterRequest(endpoint_type=endpoint_type)
        assert node.call(describe_cluster, request, 1).error_code == code


def pages(node: Node, limit: int, *names: str) -> list[list[tuple[str, list[int]]]]:
    """All pages of a listing: topics with the indexes of their partitions."""
    listed, cursor = [], None
    for _ in range(20):
        request = dtp.DescribeTopicPartitionsRequest(
            topics=[dtp.TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        response = node.call(describe_topic_partitions, request, 0)
        listed.append(
            [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics]
        )
        cursor = response.next_cursor
        if cursor is None:
            return listed
    raise AssertionError("pages without end")


def test_topics_are_listed_page_by_page(node: Node) -> None:
    assert pages(node, 2000) == [[("clicks", [0, 1]), ("orders", [0, 1, 2])]]
    assert pages(node, 2) == [[("clicks", [0, 1])], [("orders", [0, 1])], [("orders", [2])]]
    assert pages(node, 3) == [[("clicks", [0, 1]), ("orders", [0])], [("orders", [1, 2])]]
    assert pages(node, 0, "orders") == [[("orders", [0])], [("orders", [1])], [("orders", [2])]]


def test_a_listing_says_what_is_wrong(node: Node) -> None:
    names = [dtp.TopicRequest(name=name) for name in ("orders", "nowhere", "a/b")]
    denying = Denying((Operation.DESCRIBE, ResourceType.TOPIC, "orders"))
    request = dtp.DescribeTopicPartitionsRequest(topics=names)
    topics = node.call(describe_topic_partitions, request, 0, authorizer=denying).topics
    assert {topic.name: topic.error_code for topic in topics} == {
        "orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    for cursor in (
        dtp.Cursor(topic_name="zebra", partition_index=0),
        dtp.Cursor(topic_name="orders", partition_index=-1),
    ):
        with pytest.raises(KafkaError) as refusal:
            node.call(describe_topic_partitions, dtp.DescribeTopicPartitionsRequest(topics=names, cursor=cursor), 0)
        assert refusal.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
def test_each_idempotent_producer_gets_an_id_of_its_own(node: Node, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    responses = [node.call(init_producer_id, request, version) for _ in range(3)]
    assert [(response.error_code, response.producer_id, response.producer_epoch) for response in responses] == [
        (ErrorCode.NONE, 0, 0),
        (ErrorCode.NONE, 1, 0),
        (ErrorCode.NONE, 2, 0),
    ]


def test_blocks_of_producer_ids_follow_each_other(node: Node) -> None:
    producer_ids = [node.broker.producer_ids.next_id().result() for _ in range(2500)]
    assert producer_ids == list(range(2500))
    # A restart drops the rest of a block, and no id is allocated twice.
    again = ProducerIds(node.harness.controller, node.harness.controller.publishers, 1)
    assert again.next_id().result() >= 2500


def test_producer_ids_wait_for_the_block(node: Node) -> None:
    workers = node.harness.virtual.workers
    workers.immediate = False
    waiting = [node.broker.producer_ids.next_id() for _ in range(3)]
    assert not any(waiter.done for waiter in waiting)
    workers.run_all()
    assert [waiter.result() for waiter in waiting] == [0, 1, 2]


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(-1, 0), (7, -1)])
def test_half_an_identity_is_refused(node: Node, producer_id: int, producer_epoch: int) -> None:
    for transactional_id in (None, "t"):
        request = InitProducerIdRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch
        )
        with pytest.raises(KafkaError) as refused:
            node.call(init_producer_id, request, 4)
        assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_idempotent_producer_needs_some_right_to_write(node: Node) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    idempotent = (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "kafka-cluster")
    writes = (Operation.WRITE, ResourceType.TOPIC, "")
    with pytest.raises(KafkaError) as denied:
        node.call(init_producer_id, request, 4, authorizer=Denying(idempotent, writes))
    answer = init_producer_id.error_response(request, 4, denied.value)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
    assert node.call(init_producer_id, request, 4, authorizer=Denying(idempotent)).error_code == ErrorCode.NONE


def test_features_are_updated_by_whom_may(node: Node) -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    request = UpdateFeaturesRequest(feature_updates=[update])
    denying = Denying((Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster"))
    refused = node.call(update_features, request, 2, authorizer=denying)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert node.call(update_features, request, 2).error_code == ErrorCode.NONE
    assert "group.version" not in node.harness.image.features.finalized


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_described(node: Node, version: int) -> None:
    request = DescribeQuorumRequest(
        topics=[
            RequestTopicData(topic_name=name, partitions=[RequestPartitionData(partition_index=0)])
            for name in ("__cluster_metadata", "orders")
        ]
    )
    response = node.call(describe_quorum, request, version)
    quorum, other = (topic.partitions[0] for topic in response.topics)
    assert (quorum.leader_id, quorum.leader_epoch) == (1, 1)
    assert quorum.high_watermark == node.harness.image.offset + 1
    assert [voter.replica_id for voter in quorum.current_voters] == [1]
    assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [node_description.node_id for node_description in response.nodes] == ([1] if version >= 2 else [])
    denying = Denying((Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster"))
    assert node.call(describe_quorum, request, 2, authorizer=denying).error_code == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
