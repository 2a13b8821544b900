"""Produce requests with very many partitions: appended in portions, answered as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis.produce import sliced
from ottla.model.errors import ErrorCode
from ottla.wire.codec import LongMessage, decode
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.data_path import batch
from tests.support.lone_node import Answer, frame_of
from tests.unit.broker.test_growth import PARTITIONS, TOPIC, World

VERSION = 12
LONG = 3_000
UNKNOWN = "unknown"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(sliced, "PARTITIONS_PER_TURN", 50)
    return World()


def produce(count: int, *, acks: int = 1, topics: int = 1, is_known: bool = True) -> ProduceRequest:
    """`count` batches for every topic, to its partitions by turns. Every second topic is unknown."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=TOPIC if number % 2 == 0 and is_known else f"{UNKNOWN}-{number}",
                partition_data=[
                    PartitionProduceData(index=index % (PARTITIONS + 1), records=batch("a")) for index in range(count)
                ],
            )
            for number in range(topics)
        ],
    )


def send(world: World, request: ProduceRequest, version: int = VERSION, **options: Any) -> Answer:
    return world.node.send(frame_of(0, version, request), **options)


def answered(answer: Answer, version: int = VERSION) -> list[tuple[str, list[tuple[int, int, int]]]]:
    assert answer.body is not None, answer.close_reason
    response, end = decode(ProduceResponse, memoryview(answer.body), version)
    assert end == len(answer.body)
    return [
        (topic.name, [(data.index, data.error_code, data.base_offset) for data in topic.partition_responses])
        for topic in response.responses
    ]


def end_offsets(world: World) -> list[int]:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    response = world.node.ask(2, 7, ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=partitions)]))
    return [partition.offset for partition in response.topics[0].partitions]


@pytest.mark.parametrize("version", [3, VERSION])
@pytest.mark.parametrize("acks", [-1, 1])
def test_batches_are_appended_in_the_order_of_the_request(world: World, version: int, acks: int) -> None:
    answer = send(world, produce(LONG // 2, topics=2, acks=acks), version)
    expected = [
        (number % 5, ErrorCode.NONE, number // 5)
        if number % 5 < PARTITIONS
        else (number % 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        for number in range(LONG // 2)
    ]
    refused = [(number % 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1) for number in range(LONG // 2)]
    assert answered(answer, version) == [(TOPIC, expected), (f"{UNKNOWN}-1", refused)]
    assert answer.turns > LONG / 50
    assert end_offsets(world) == [LONG // 2 // 5] * PARTITIONS


def test_many_topics_are_answered_in_their_order(world: World) -> None:
    answer = send(world, produce(1, topics=LONG, is_known=False))
    assert [name for name, _ in answered(answer)] == [f"{UNKNOWN}-{number}" for number in range(LONG)]


def test_an_error_without_an_answer_closes_the_connection_after_the_last_append(world: World) -> None:
    answer = send(world, produce(LONG, acks=0))
    assert answer.body is None
    assert "acks=0" in str(answer.close_reason)
    assert end_offsets(world) == [LONG // 5] * PARTITIONS


def test_the_rest_is_dropped_when_the_client_has_gone(world: World) -> None:
    whole = send(world, produce(LONG))
    before = end_offsets(world)[0]
    abandoned = send(world, produce(LONG), gone_after_turns=whole.turns // 2)
    assert abandoned.close_reason == "the client has gone before all of its records were appended"
    assert before < end_offsets(world)[0] < 2 * before


def test_only_a_long_request_is_left_to_the_slices() -> None:
    with pytest.raises(LongMessage):
        decode(ProduceRequest, memoryview(frame_of(0, VERSION, produce(LONG)))[17:], VERSION)
