"""Commits whose topics are checked over several turns of the loop: offsets are committed, unknown topics refused."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.commit_topics import TOPICS_PER_TURN
from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.lone_node import LoneNode, frame_of

PARTITIONS = 4
COUNT = 2 * TOPICS_PER_TURN + PARTITIONS


@pytest.fixture(scope="module")
def node() -> LoneNode:
    node = LoneNode()
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    assert node.ask(19, 7, CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0
    for key_type, key in ((0, "g"), (1, "x")):
        response = node.ask(10, 4, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
        assert response.coordinators[0].error_code == 0
    return node


def every_second_is_unknown(topic_class: Any, partition_class: Any) -> list[Any]:
    """Offset n of partition n % 4 in topic t, and after each of them an unknown topic."""
    topics = []
    for number in range(COUNT):
        partition = partition_class(partition_index=number % PARTITIONS, committed_offset=number)
        topics.append(topic_class(name="t", partitions=[partition]))
        unknown = partition_class(partition_index=0, committed_offset=7)
        topics.append(topic_class(name=f"unknown-{number}", partitions=[unknown]))
    return topics


def committed(node: LoneNode, group_id: str) -> dict[int, int]:
    answer = node.ask(9, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]))
    (topic,) = answer.groups[0].topics
    assert topic.name == "t"
    return {partition.partition_index: partition.committed_offset for partition in topic.partitions}


def check(answer: Any) -> None:
    codes: dict[str, list[int]] = {}
    for topic in answer.topics:
        codes.setdefault(topic.name, []).extend(partition.error_code for partition in topic.partitions)
    assert codes.pop("t") == [ErrorCode.NONE] * COUNT
    assert list(codes.values()) == [[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]] * COUNT


# The last offset of each partition.
EXPECTED = {offset % PARTITIONS: offset for offset in range(COUNT - PARTITIONS, COUNT)}


def test_an_offset_commit(node: LoneNode) -> None:
    topics = every_second_is_unknown(OffsetCommitRequestTopic, OffsetCommitRequestPartition)
    request = OffsetCommitRequest(group_id="g", topics=topics)
    check(node.ask(8, 8, request))
    assert committed(node, "g") == EXPECTED
    answer = node.send(frame_of(8, 8, request))
    assert answer.turns > 2 * COUNT / TOPICS_PER_TURN


def test_a_commit_in_a_transaction(node: LoneNode) -> None:
    producer = node.ask(22, 4, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="in-transaction",
        topics=every_second_is_unknown(TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition),
        **identity,
    )
    check(node.ask(28, 5, request))
    assert node.ask(26, 5, EndTxnRequest(transactional_id="x", committed=True, **identity)).error_code == 0
    node.run_for(1.0)
    assert committed(node, "in-transaction") == EXPECTED
    assert node.findings == []
