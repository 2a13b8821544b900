"""Shared by the tests of clusters: requests to a particular node, and waiting for an expected answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ottla.testing
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.raw_client import RawClient

__all__ = ["ask", "broker_ids", "create_topic", "partitions_of", "wait_until"]

WAIT_SECONDS_MAX = 60.0


def ask(node: ottla.testing.Node, request: Any, version: int) -> Any:
    with RawClient(node.address) as client:
        return client.call(request, version)


def wait_until(condition: Callable[[], bool], description: str) -> None:
    """Waits, because nodes replay a change a moment later; fails if the condition does not hold in time."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"in vain waited until {description}"
        time.sleep(0.01)


def broker_ids(node: ottla.testing.Node) -> list[int]:
    """The ids of the brokers in this node's metadata."""
    return [broker.node_id for broker in ask(node, MetadataRequest(topics=[]), 12).brokers]


def partitions_of(node: ottla.testing.Node, topic: str) -> dict[int, Any]:
    """A topic's partitions in this node's metadata; empty while the node does not know the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (answer,) = ask(node, request, 9).topics
    return {partition.partition_index: partition for partition in answer.partitions}


def create_topic(
    node: ottla.testing.Node,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str] | None = None,
) -> None:
    """Returns when the given node knows the topic; other nodes may not know it yet."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    answer = ask(node, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]
    assert answer.error_code == 0, answer
    # The controller has created the topic; a node that is not the controller replays the change a moment later.
    wait_until(lambda: bool(partitions_of(node, name)), f"the node that was asked to create {name} knows it")
