"""Requests that decode but make no sense: each gets an answer, and the partition stays as it should be."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.broker.apis import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.codec import decode, encode, encode_parts
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.data_path import DataPath, batch, values

ROUNDS = 300
INT8 = (-128, -1, 0, 1, 127)
INT32 = (-(1 << 31), -2, -1, 0, 1, 2, 5, 1_000, (1 << 31) - 1)
INT64 = (-(1 << 63), -7, -3, -2, -1, 0, 1, 2, 3, 1_000, (1 << 63) - 1)


def settled(node: DataPath, response: Any) -> Any:
    if isinstance(response, Deferred):
        node.virtual.workers.run_all()
        node.virtual.scheduler.advance(600_000)
        return response.result()
    return response


@pytest.mark.parametrize("seed", range(3))
def test_damaged_batches_are_refused_or_whole(node: DataPath, seed: int) -> None:
    """After a flipped byte or a cut, accepted batches can be read back, and order and offsets stay valid."""
    random = Random(seed)
    node.create_topic("t")
    node.create_topic("c", cleanup_policy="compact", compression_type="lz4")
    accepted = {"t": 0, "c": 0}
    for _ in range(ROUNDS):
        topic = random.choice(("t", "c"))
        records = bytearray(batch("one", "two", keys=True, codec=random.choice((0, 1, 3, 4))))
        for _ in range(random.randrange(3)):
            records[random.randrange(len(records))] = random.randrange(256)
        if random.random() < 0.2:
            del records[random.randrange(len(records)) :]
        answer = settled(node, node.produce(topic, memoryview(records)))
        if isinstance(answer, ProduceResponse):
            answer = answer.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.NONE:
            assert answer.base_offset == accepted[topic]
            accepted[topic] = node.partition(topic).log.log_end_offset
        else:
            assert node.partition(topic).log.log_end_offset == accepted[topic]
    for topic, end in accepted.items():
        assert len(values(node.fetch_one(topic, 0).records)) == end > 0


def random_fetch(random: Random, topic_id: Uuid, version: int) -> FetchRequest:
    partitions = [
        FetchPartition(
            partition=random.choice(INT32),
            fetch_offset=random.choice(INT64),
            current_leader_epoch=random.choice(INT32),
            last_fetched_epoch=random.choice(INT32) if version >= 12 else -1,
            log_start_offset=random.choice(INT64),
            partition_max_bytes=random.choice(INT32),
        )
        for _ in range(random.randrange(4))
    ]
    identity = random.choice((topic_id, Uuid.ZERO, Uuid.ONE))
    return FetchRequest(
        replica_id=random.choice((-2, -1, 1, 2, 99)) if version < 15 else -1,
        max_wait_ms=random.choice(INT32),
        min_bytes=random.choice(INT32),
        max_bytes=random.choice(INT32),
        isolation_level=random.choice(INT8),
        session_id=random.choice(INT32),
        session_epoch=random.choice((-5, -1, 0, 1, 2)),
        topics=[FetchTopic(topic=random.choice(("t", "", "u")), topic_id=identity, partitions=partitions)],
        forgotten_topics_data=[ForgottenTopic(topic="t", topic_id=identity, partitions=[random.choice(INT32)])]
        if version >= 7
        else [],
    )


@pytest.mark.parametrize("seed", range(3))
def test_any_numbers_in_any_request(node: DataPath, seed: int) -> None:
    """Every answer can be encoded, nothing is left waiting, and the partition is still there afterwards."""
    random = Random(seed)
    topic_id = node.create_topic("t", 2, replicas=(1, 2), isr=(1,))
    node.append("t", "a", "b", "c")
    requests: list[tuple[Any, Any, int]] = []
    for _ in range(ROUNDS):
        topic = random.choice(("t", "", "u"))
        index = random.choice(INT32)
        wanted = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=random.choice(INT32), timestamp=random.choice(INT64)
        )
        listed = ListOffsetsRequest(
            replica_id=random.choice(INT32),
            isolation_level=random.choice(INT8),
            topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        )
        epoch = OffsetForLeaderPartition(
            partition=index, current_leader_epoch=random.choice(INT32), leader_epoch=random.choice(INT32)
        )
        epochs = OffsetForLeaderEpochRequest(
            replica_id=random.choice(INT32), topics=[OffsetForLeaderTopic(topic=topic, partitions=[epoch])]
        )
        produced = ProduceRequest(
            acks=random.choice((-(1 << 15), -1, 1, 2, (1 << 15) - 1)),
            timeout_ms=random.choice(INT32),
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=random.choice((topic_id, Uuid.ZERO, Uuid.ONE)),
                    partition_data=[PartitionProduceData(index=index, records=random.choice((None, memoryview(b""))))],
                )
            ],
        )
        version = random.choice((4, 7, 12, 13, 17))
        requests += [
            (fetch, random_fetch(random, topic_id, version), version),
            (list_offsets, listed, random.choice((2, 4, 7, 11))),
            (offset_for_leader_epoch, epochs, 4),
            (produce, produced, random.choice((3, 9, 13))),
        ]
    for handler, request, version in requests:
        received = memoryview(bytearray(encode(request, version)))
        decoded, _ = decode(type(request), received, version)
        response = settled(node, node.call(handler, decoded, version))
        encode_parts(response, version)
    assert node.replicas.parking.parked == 0
    assert len(node.replicas.sessions) <= node.replicas.sessions.slots_max
    assert values(node.fetch_one("t", 0).records) == ["a", "b", "c"]


def test_any_offset_to_delete(node: DataPath) -> None:
    node.create_topic("t")
    node.append("t", "a", "b", "c")
    for offset in INT64:
        wanted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        node.call(delete_records, DeleteRecordsRequest(topics=[wanted], timeout_ms=-1), 2)
    assert node.partition("t").log.log_start_offset == 3
