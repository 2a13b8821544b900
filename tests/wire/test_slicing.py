"""Messages that are read and written in slices: the same bytes, the same errors, with pauses."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ottla.model.ids import Uuid
from ottla.wire.codec import MalformedMessage, decode, encode, encode_parts
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from ottla.wire.slicing import ELEMENTS_PER_SLICE, decode_in_slices, encode_in_slices

VERSIONS = [4, 11, 12, 18]
TOPICS, PARTITIONS = 5, ELEMENTS_PER_SLICE // 2


def finished(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """The result, and the number of pauses."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def request(version: int) -> FetchRequest:
    state = ReplicaState(replica_id=3, replica_epoch=4) if version >= 15 else None
    partitions = [FetchPartition(partition=index, fetch_offset=index * 7) for index in range(PARTITIONS)]
    topics = [
        FetchTopic(topic=f"t{number}", partitions=partitions)
        if version < 13
        else FetchTopic(topic_id=Uuid(bytes([number]) * 16), partitions=partitions)
        for number in range(TOPICS)
    ]
    return FetchRequest(topics=topics, max_wait_ms=5, rack_id="" if version < 11 else "r", replica_state=state)


def response(version: int) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, high_watermark=index, records=memoryview(b"x" * (index % 3)))
        for index in range(PARTITIONS)
    ]
    topics = [
        FetchableTopicResponse(topic=f"t{number}", partitions=partitions)
        if version < 13
        else FetchableTopicResponse(topic_id=Uuid(bytes([number]) * 16), partitions=partitions)
        for number in range(TOPICS)
    ]
    endpoints = [NodeEndpoint(node_id=1, host="h", port=2)] if version >= 16 else []
    return FetchResponse(responses=topics, node_endpoints=endpoints)


@pytest.mark.parametrize("version", VERSIONS)
def test_reading(version: int) -> None:
    data = memoryview(b"??" + encode(request(version), version))
    read, pauses = finished(decode_in_slices(FetchRequest, data, version, 2))
    assert read == decode(FetchRequest, data, version, 2)
    assert pauses == (TOPICS * PARTITIONS + TOPICS) // ELEMENTS_PER_SLICE


@pytest.mark.parametrize("version", VERSIONS)
def test_writing(version: int) -> None:
    parts, pauses = finished(encode_in_slices(response(version), version))
    assert b"".join(parts) == b"".join(encode_parts(response(version), version))  # type: ignore[arg-type]
    assert pauses == (TOPICS * PARTITIONS + TOPICS) // ELEMENTS_PER_SLICE
    # Foreign parts are passed on, and our own parts are joined.
    passed_on = sum(isinstance(part, memoryview) for part in parts)
    assert passed_on == TOPICS * PARTITIONS
    assert len(parts) == 2 * passed_on + pauses + 1


def test_what_has_no_records_becomes_one_part_for_each_slice() -> None:
    empty = response(12)
    for topic in empty.responses:
        for data in topic.partitions:
            data.records = b""
    parts, pauses = finished(encode_in_slices(empty, 12))
    assert b"".join(parts) == encode(empty, 12)
    assert len(parts) == pauses + 1


def test_what_is_cut_off_is_malformed() -> None:
    data = memoryview(encode(request(12), 12))
    with pytest.raises(MalformedMessage, match="exceeds the remaining bytes"):
        finished(decode_in_slices(FetchRequest, data[: len(data) // 2], 12))


def test_a_short_message_has_no_pauses() -> None:
    data = memoryview(encode(FetchRequest(topics=[FetchTopic(topic="t")]), 12))
    assert finished(decode_in_slices(FetchRequest, data, 12))[1] == 0
