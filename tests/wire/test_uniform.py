"""Long arrays of elements of one size are read at once, with the same result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.uniform import UNIFORM_COUNT_MAX, UNIFORM_COUNT_MIN, UniformArray


def request_of(*metadata: str | None) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index << 33, committed_metadata=text)
        for index, text in enumerate(metadata)
    ]
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])


@pytest.mark.parametrize("version", range(2, 10))
@given(metadata=st.lists(st.sampled_from(["", "", "", "", None, "m"]), max_size=8))
def test_elements_are_what_they_would_be_one_by_one(version: int, metadata: list[str | None]) -> None:
    request = request_of(*metadata)
    decoded, end = decode(OffsetCommitRequest, memoryview(encode(request, version)), version)
    assert decoded == request
    assert end == len(encode(request, version)) == len(encode(decoded, version))
    is_uniform = len(metadata) >= UNIFORM_COUNT_MIN and set(metadata) == {""}
    assert isinstance(decoded.topics[0].partitions, UniformArray) is is_uniform


def test_columns_and_elements() -> None:
    decoded, _ = decode(OffsetCommitRequest, memoryview(encode(request_of(*[""] * 10), 9)), 9)
    partitions = decoded.topics[0].partitions
    assert isinstance(partitions, UniformArray)
    assert partitions.column("committed_offset") == tuple(index << 33 for index in range(10))
    assert partitions.column("committed_leader_epoch") == (-1,) * 10
    assert "committed_metadata" not in partitions.names
    assert [partition.partition_index for partition in partitions[-2:]] == [8, 9]
    assert partitions[-1] == partitions[9]
    with pytest.raises(IndexError):
        partitions[10]


@pytest.mark.parametrize("version", [2, 9])
def test_a_very_long_array_is_read_one_by_one(version: int) -> None:
    request = request_of(*[""] * (UNIFORM_COUNT_MAX + 1))
    decoded, _ = decode(OffsetCommitRequest, memoryview(encode(request, version)), version)
    assert type(decoded.topics[0].partitions) is list
    assert decoded == request


def test_an_array_that_ends_early_is_malformed() -> None:
    encoded = memoryview(encode(request_of(*[""] * 10), 9))
    for length in range(len(encoded)):
        with pytest.raises(MalformedMessage):
            decode(OffsetCommitRequest, encoded[:length], 9)
