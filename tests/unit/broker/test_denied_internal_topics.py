"""Answers about internal topics that the client may not describe, as Apache Kafka 4.3 gives them."""

from __future__ import annotations

import pytest

from ottla.broker.apis import describe_topic_partitions, metadata
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages import describe_topic_partitions as dtp
from tests.unit.broker.test_metadata_apis import Denying, Node, asked

OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_that_may_not_be_described_is_not_called_internal(exists: bool) -> None:
    node = Node()
    if exists:
        node.harness.create(OFFSETS, 1)
    denying = Denying((Operation.DESCRIBE, ResourceType.TOPIC, OFFSETS))
    (topic,) = node.call(metadata, asked(OFFSETS), 12, authorizer=denying).topics
    assert (topic.name, topic.error_code) == (OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not topic.is_internal
    request = dtp.DescribeTopicPartitionsRequest(topics=[dtp.TopicRequest(name=OFFSETS)])
    (described,) = node.call(describe_topic_partitions, request, 0, authorizer=denying).topics
    assert (described.name, described.error_code) == (OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not described.is_internal


def test_a_topic_that_may_be_described_but_not_created_is_internal() -> None:
    denying = Denying(
        (Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME), (Operation.CREATE, ResourceType.TOPIC, OFFSETS)
    )
    (topic,) = Node().call(metadata, asked(OFFSETS), 12, authorizer=denying).topics
    assert (topic.error_code, topic.is_internal) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True)
