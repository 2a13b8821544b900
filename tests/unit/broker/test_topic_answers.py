"""Metadata answers for topics with many partitions: kept while they are valid, and built in several turns."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import metadata
from ottla.broker.topic_answers import ANSWERS_MAX, PARTITIONS_PER_STEP, TopicAnswers
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.model.errors import ErrorCode
from ottla.wire.messages import create_topics as ct
from ottla.wire.messages.metadata import MetadataRequest
from tests.unit.broker.test_metadata_apis import Node, asked


@pytest.fixture
def node() -> Node:
    node = Node()
    node.harness.create("orders", 3)
    node.harness.create("clicks", 2)
    return node


def answer_of(answers: TopicAnswers, topic: TopicImage, image: MetadataImage, listener: str, version: int) -> Any:
    steps = answers.steps(topic, image, listener, version)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_an_answer_with_thousands_of_partitions_takes_several_turns(node: Node) -> None:
    assignments = [
        ct.CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(2 * PARTITIONS_PER_STEP)
    ]
    for name in ("large", "larger"):
        assert node.harness.create(name, -1, -1, assignments=assignments).error_code == ErrorCode.NONE
    scheduler = node.harness.virtual.scheduler
    run, turns = scheduler.run_turn, 0

    def count_turns() -> None:
        nonlocal turns
        while scheduler._soon:
            turns += 1
            run()

    scheduler.run = count_turns  # type: ignore[method-assign]
    response = node.call(metadata, asked("large", "missing", "larger", allow_auto_topic_creation=False), 12)
    assert turns > 2
    assert [topic.error_code for topic in response.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    for topic in (response.topics[0], response.topics[2]):
        assert [partition.partition_index for partition in topic.partitions] == list(range(2 * PARTITIONS_PER_STEP))
        assert {
            (partition.leader_id, *partition.replica_nodes, *partition.isr_nodes) for partition in topic.partitions
        } == {(1, 1, 1)}
    everything = node.call(metadata, MetadataRequest(topics=None), 12)
    assert [topic.name for topic in everything.topics] == ["clicks", "large", "larger", "orders"]
    assert len(everything.topics[2].partitions) == 2 * PARTITIONS_PER_STEP


def test_partitions_that_are_not_alike_are_told_apart(node: Node) -> None:
    """Thousands of partitions share the parts of their answers; these do not."""
    for broker_id in (2, 3):
        node.harness.add_broker(broker_id)
    replicas = [[1, 2], [2, 1], [3, 1], [2, 3], [3, 2]]
    assignments = [
        ct.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas[index % 5]) for index in range(40)
    ]
    assert node.harness.create("mixed", -1, -1, assignments=assignments).error_code == ErrorCode.NONE
    node.harness.beat(2, want_fence=True)
    partitions = node.call(metadata, asked("mixed"), 12).topics[0].partitions
    expected = [(1, [1], [2]), (1, [1], [2]), (3, [3, 1], []), (3, [3], [2]), (3, [3], [2])]
    for index, partition in enumerate(partitions):
        assert partition.replica_nodes == replicas[index % 5]
        assert (partition.leader_id, partition.isr_nodes, partition.offline_replicas) == expected[index % 5]


def test_what_is_kept_of_a_large_topic_is_given_again_until_it_changes(node: Node) -> None:
    node.harness.create("large", 40)
    image, answers = node.harness.image, node.broker.topic_answers
    topic = image.topics.by_name["large"]
    first = answer_of(answers, topic, image, "PLAINTEXT", 12)
    assert answer_of(answers, topic, image, "PLAINTEXT", 12) is first
    assert [partition.leader_id for partition in first.partitions] == [1] * 40
    # Every listener and version has its own cached answer.
    elsewhere = answer_of(answers, topic, image, "ELSEWHERE", 12)
    assert {partition.error_code for partition in elsewhere.partitions} == {ErrorCode.LISTENER_NOT_FOUND}
    assert answer_of(answers, topic, image, "PLAINTEXT", 4).partitions[0].offline_replicas == []
    # The only broker is gone, which changes the topic's leaders and offline replicas.
    node.harness.beat(1, want_fence=True)
    later = node.call(metadata, asked("large"), 12).topics[0]
    assert {(partition.leader_id, *partition.offline_replicas) for partition in later.partitions} == {(-1, 1)}


def test_brokers_that_change_change_what_is_kept(node: Node) -> None:
    node.harness.create("large", 40)
    assert node.call(metadata, asked("large"), 12).topics[0].partitions[0].offline_replicas == []
    image, answers = node.harness.image, node.broker.topic_answers
    without_brokers = image._replace(cluster=image.cluster._replace(brokers={}))
    answer = answer_of(answers, image.topics.by_name["large"], without_brokers, "PLAINTEXT", 12)
    assert answer.partitions[0].offline_replicas == [1]


def test_only_so_many_answers_are_kept(node: Node) -> None:
    answers = node.broker.topic_answers
    for number in range(ANSWERS_MAX + 1):
        node.harness.create(f"large-{number}", 32)
    image = node.harness.image
    topics = [image.topics.by_name[f"large-{number}"] for number in range(ANSWERS_MAX + 1)]
    first_answers = [answer_of(answers, topic, image, "PLAINTEXT", 12) for topic in topics]
    assert answer_of(answers, topics[-1], image, "PLAINTEXT", 12) is first_answers[-1]
    assert answer_of(answers, topics[0], image, "PLAINTEXT", 12) is not first_answers[0]
