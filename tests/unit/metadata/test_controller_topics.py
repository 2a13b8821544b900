"""Creating and deleting topics through the controller."""

from __future__ import annotations

import pytest

from ottla.model.config.effective import ConfigSource
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.metadata.harness import ControllerHarness, done


@pytest.fixture
def harness() -> ControllerHarness:
    harness = ControllerHarness()
    harness.add_broker(1)
    return harness


def test_a_topic_is_created_with_partitions_and_configuration(harness: ControllerHarness) -> None:
    result = harness.create("orders", 3, 1, configs=[CreatableTopicConfig(name="retention.ms", value="12345")])
    assert result.error_code == ErrorCode.NONE
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    topic = harness.image.topics.by_name["orders"]
    assert topic is harness.image.topics.by_id[result.topic_id]
    assert sorted(topic.partitions) == [0, 1, 2]
    partition = topic.partitions[0]
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((1,), (1,), 1, 0)
    assert partition.directories == harness.image.brokers[1].directories
    assert harness.image.configs.of_topic("orders") == {"retention.ms": "12345"}


def test_the_answer_shows_every_public_key_with_its_source(harness: ControllerHarness) -> None:
    result = harness.create("orders", configs=[CreatableTopicConfig(name="retention.ms", value="12345")])
    by_name = {config.name: config for config in result.configs}
    assert [config.name for config in result.configs] == sorted(by_name)
    assert by_name["retention.ms"].config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert by_name["segment.bytes"].config_source == ConfigSource.DEFAULT_CONFIG
    assert by_name["segment.bytes"].value == "1073741824"
    # The bootstrap records of a new cluster set it for all brokers.
    assert by_name["min.insync.replicas"].config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def test_a_default_under_another_name_is_no_default_of_the_release() -> None:
    harness = ControllerHarness(properties={"log.retention.hours": "1"})
    harness.add_broker(1)
    by_name = {config.name: config for config in harness.create("t").configs}
    assert by_name["retention.ms"].value == "3600000"
    assert by_name["retention.ms"].config_source == ConfigSource.STATIC_BROKER_CONFIG


def test_defaults_come_from_the_configuration() -> None:
    harness = ControllerHarness(properties={"num.partitions": "4", "default.replication.factor": "2"})
    for broker_id in (1, 2, 3):
        harness.add_broker(broker_id)
    result = harness.create("orders", -1, -1)
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_validate_only_changes_nothing(harness: ControllerHarness) -> None:
    offset = harness.image.offset
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)], validate_only=True
    )
    result = done(harness.controller.ask(request)).topics[0]
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
    assert harness.image.offset == offset
    assert "orders" not in harness.image.topics.by_name


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic(name="", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(name="..", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(name="a/b", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(name="ä", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(name="a" * 250, num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(name="with_dot", num_partitions=1, replication_factor=1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (CreatableTopic(name="taken", num_partitions=1, replication_factor=1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (CreatableTopic(name="t", num_partitions=0, replication_factor=1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic(name="t", num_partitions=-2, replication_factor=1), ErrorCode.INVALID_PARTITIONS),
        (CreatableTopic(name="t", num_partitions=1, replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (CreatableTopic(name="t", num_partitions=1, replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (
            CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value="x")],
            ),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="no.such", value="1")],
            ),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value=None)],
            ),
            ErrorCode.INVALID_CONFIG,
        ),
        (CreatableTopic(name="__cluster_metadata", num_partitions=1, replication_factor=1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_with_a_new_topic_is_said(
    harness: ControllerHarness, topic: CreatableTopic, code: ErrorCode
) -> None:
    harness.create("taken")
    harness.create("with.dot")
    offset = harness.image.offset
    result = done(harness.controller.ask(CreateTopicsRequest(topics=[topic]))).topics[0]
    assert result.error_code == code
    assert result.error_message
    assert harness.image.offset == offset


@pytest.mark.parametrize(
    "topics",
    [
        [CreatableTopic(name="t", num_partitions=10_001, replication_factor=1)],
        [CreatableTopic(name=f"t{number}", num_partitions=1000, replication_factor=1) for number in range(11)],
        # Not too many partitions, but too many records.
        [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(5_001)],
    ],
)
def test_a_request_that_is_too_large_creates_nothing(harness: ControllerHarness, topics: list[CreatableTopic]) -> None:
    refused = harness.controller.ask(CreateTopicsRequest(topics=topics))
    assert isinstance(refused.error, KafkaError)
    assert refused.error.code == ErrorCode.POLICY_VIOLATION
    assert len(harness.image.topics.by_name) == 0


@pytest.mark.parametrize(
    "assignments",
    [
        [(0, [])],
        [(0, [1, 1])],
        [(0, [2])],
        [(1, [1])],
        [(0, [1]), (0, [1])],
        [(0, [1]), (1, [1, 3])],
        [(0, [4])],
    ],
)
def test_a_manual_assignment_must_make_sense(
    harness: ControllerHarness, assignments: list[tuple[int, list[int]]]
) -> None:
    harness.add_broker(3)
    harness.add_broker(4, unfence=False)
    result = harness.create(
        "t",
        -1,
        -1,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in assignments],
    )
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_manual_assignment_is_taken_as_it_is(harness: ControllerHarness) -> None:
    harness.add_broker(3)
    harness.add_broker(4, unfence=False)
    result = harness.create(
        "t",
        -1,
        -1,
        assignments=[
            CreatableReplicaAssignment(partition_index=1, broker_ids=[1, 3]),
            CreatableReplicaAssignment(partition_index=0, broker_ids=[4, 3]),
        ],
    )
    assert result.error_code == ErrorCode.NONE
    partitions = harness.image.topics.by_name["t"].partitions
    assert partitions[0].replicas == (4, 3)
    # The fenced broker is neither in sync nor leader.
    assert (partitions[0].isr, partitions[0].leader) == ((3,), 3)
    assert partitions[1].leader == 1


def test_a_name_given_twice_is_refused_once_and_others_are_created(harness: ControllerHarness) -> None:
    def topic(name: str) -> CreatableTopic:
        return CreatableTopic(name=name, num_partitions=1, replication_factor=1)

    request = CreateTopicsRequest(topics=[topic("twice"), topic("once"), topic("twice")])
    results = done(harness.controller.ask(request)).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]


def test_topics_are_deleted_by_name_and_by_id(harness: ControllerHarness) -> None:
    harness.create("one", configs=[CreatableTopicConfig(name="retention.ms", value="1")])
    two = harness.create("two.dotted").topic_id
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="one"), DeleteTopicState(name=None, topic_id=two)],
    )
    results = done(harness.controller.ask(request)).responses
    assert [(result.name, result.error_code) for result in results] == [("one", 0), ("two.dotted", 0)]
    assert len(harness.image.topics.by_name) == 0
    assert harness.image.configs.of_topic("one") == {}
    # The name is free again, and so is the one it would have collided with.
    assert harness.create("two_dotted").error_code == ErrorCode.NONE
    again = harness.create("one")
    assert again.error_code == ErrorCode.NONE
    assert harness.image.topics.by_name["one"].topic_id == again.topic_id


def test_what_is_wrong_with_a_deletion_is_said(harness: ControllerHarness) -> None:
    topic_id = harness.create("one").topic_id
    stranger = Uuid(b"0123456789abcdef")
    request = DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name="nowhere"),
            DeleteTopicState(name=None, topic_id=stranger),
            DeleteTopicState(name=None),
            DeleteTopicState(name="one", topic_id=topic_id),
            DeleteTopicState(name="two"),
            DeleteTopicState(name="two"),
        ]
    )
    results = done(harness.controller.ask(request)).responses
    assert [result.error_code for result in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert "one" in harness.image.topics.by_name


def test_one_topic_named_in_two_ways_is_not_deleted(harness: ControllerHarness) -> None:
    topic_id = harness.create("one").topic_id
    named = [DeleteTopicState(name=None, topic_id=topic_id), DeleteTopicState(name="one")]
    for topics in (named, named[::-1]):
        results = done(harness.controller.ask(DeleteTopicsRequest(topics=topics))).responses
        assert [(result.name, result.topic_id, result.error_code) for result in results] == [
            ("one", topic_id, ErrorCode.INVALID_REQUEST)
        ]
    assert "one" in harness.image.topics.by_name


def test_deletion_can_be_disabled() -> None:
    harness = ControllerHarness(properties={"delete.topic.enable": "false"})
    harness.add_broker(1)
    harness.create("one")
    results = done(harness.controller.ask(DeleteTopicsRequest(topic_names=["one"]))).responses
    assert [result.error_code for result in results] == [ErrorCode.TOPIC_DELETION_DISABLED]
    assert "one" in harness.image.topics.by_name


def test_partitions_are_added(harness: ControllerHarness) -> None:
    harness.create("orders", 2)
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=5, assignments=None)])
    assert done(harness.controller.ask(request)).results[0].error_code == ErrorCode.NONE
    assert sorted(harness.image.topics.by_name["orders"].partitions) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatePartitionsTopic(name="no", count=5, assignments=None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CreatePartitionsTopic(name="orders", count=2, assignments=None), ErrorCode.INVALID_PARTITIONS),
        (CreatePartitionsTopic(name="orders", count=1, assignments=None), ErrorCode.INVALID_PARTITIONS),
        (
            CreatePartitionsTopic(name="orders", count=4, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            CreatePartitionsTopic(name="orders", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_what_is_wrong_with_more_partitions_is_said(
    harness: ControllerHarness, topic: CreatePartitionsTopic, code: ErrorCode
) -> None:
    harness.create("orders", 2)
    result = done(harness.controller.ask(CreatePartitionsRequest(topics=[topic]))).results[0]
    assert result.error_code == code
    assert len(harness.image.topics.by_name["orders"].partitions) == 2
