"""The guarantees of the codec beyond values: defaults, ignorable fields, tags, nulls, bytes that are not copied."""

from __future__ import annotations

import pytest

from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.wire.codec import (
    MalformedMessage,
    UnsupportedVersion,
    decode,
    decoder,
    encode,
    encode_parts,
    encoder,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.quorum_state import QuorumStateData
from ottla.wire.primitives import read_unsigned_varint, unsigned_varint_bytes


def fetch_response(records: object) -> FetchResponse:
    partition = PartitionData(partition_index=1, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=Uuid(b"t" * 16), partitions=[partition])])


def test_decoded_records_are_a_slice_of_the_frame() -> None:
    records = memoryview(b"r" * 500)
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])]
    )
    frame = bytearray(encode(request, 9))
    decoded, _ = decode(ProduceRequest, memoryview(frame), 9)
    decoded_records = decoded.topic_data[0].partition_data[0].records
    assert decoded_records == records
    assert decoded_records is not None
    decoded_records[0:1] = b"!"
    assert b"!" + b"r" * 499 in frame


@pytest.mark.parametrize("version", [11, 13])
def test_records_are_passed_through_uncopied(version: int) -> None:
    class NotAFile:
        path = "segment"

        def read(self, position: int, length: int) -> bytes:
            return b"0123456789"[position : position + length]

    batch = memoryview(b"b" * 200)
    region = FileRegion(NotAFile(), 2, 5)
    response = fetch_response([batch, region])
    if version < 13:
        response.responses[0].topic_id = Uuid.ZERO
        response.responses[0].topic = "t"
    parts = encode_parts(response, version)
    assert any(part is batch for part in parts)
    assert any(part is region for part in parts)
    encoded = encode(response, version)
    assert len(encoded) == sum(len(part) for part in parts)
    decoded, end = decode(FetchResponse, memoryview(encoded), version)
    assert end == len(encoded)
    assert decoded.responses[0].partitions[0].records == b"b" * 200 + b"23456"


def test_a_single_run_of_records_and_none() -> None:
    for records, expected in ((b"abc", b"abc"), (b"", b""), ([], b""), (None, None)):
        decoded, _ = decode(FetchResponse, memoryview(encode(fetch_response(records), 13)), 13)
        assert decoded.responses[0].partitions[0].records == expected


def test_a_field_outside_the_version_is_refused_unless_it_holds_its_default() -> None:
    encode(FindCoordinatorRequest(key="k", key_type=0), 0)
    with pytest.raises(UnsupportedVersion, match="key_type"):
        encode(FindCoordinatorRequest(key="k", key_type=1), 0)
    with pytest.raises(UnsupportedVersion, match="coordinator_keys"):
        encode(FindCoordinatorRequest(key="k", coordinator_keys=["k"]), 3)
    # This one defaults to true and came with version 4.
    encode(MetadataRequest(topics=[]), 1)
    with pytest.raises(UnsupportedVersion, match="allow_auto_topic_creation"):
        encode(MetadataRequest(topics=[], allow_auto_topic_creation=False), 1)
    with pytest.raises(UnsupportedVersion, match="voted_directory_id"):
        encode(QuorumStateData(voted_directory_id=Uuid.ONE), 0)


def test_an_ignorable_field_is_left_out() -> None:
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", topic_id=Uuid(b"i" * 16))])
    by_name, _ = decode(ProduceRequest, memoryview(encode(request, 12)), 12)
    by_id, _ = decode(ProduceRequest, memoryview(encode(request, 13)), 13)
    assert (by_name.topic_data[0].name, by_name.topic_data[0].topic_id) == ("t", Uuid.ZERO)
    assert (by_id.topic_data[0].name, by_id.topic_data[0].topic_id) == ("", Uuid(b"i" * 16))


def test_a_version_that_does_not_exist_is_refused() -> None:
    for version in (2, 14):
        with pytest.raises(UnsupportedVersion, match="3 to 13"):
            decoder(ProduceRequest, version)
        with pytest.raises(UnsupportedVersion, match="3 to 13"):
            encoder(ProduceRequest, version)
    with pytest.raises(TypeError):
        decoder(TopicProduceData, 9)


def test_absent_fields_have_their_defaults() -> None:
    decoded, _ = decode(MetadataRequest, memoryview(encode(MetadataRequest(topics=None), 1)), 1)
    assert decoded.topics is None
    assert decoded.allow_auto_topic_creation is True
    decoded_fetch, _ = decode(FetchRequest, memoryview(encode(FetchRequest(), 4)), 4)
    assert decoded_fetch.max_bytes == 0x7FFFFFFF
    assert decoded_fetch.replica_state is None


def test_a_tagged_structure_is_absent_as_none_and_as_its_default() -> None:
    assert encode(FetchRequest(), 15) == encode(FetchRequest(replica_state=ReplicaState()), 15)
    request = FetchRequest(replica_state=ReplicaState(replica_id=3, replica_epoch=9))
    decoded, _ = decode(FetchRequest, memoryview(encode(request, 15)), 15)
    assert decoded.replica_state == ReplicaState(replica_id=3, replica_epoch=9)


def test_known_tags_come_in_order_whatever_the_order_of_fields() -> None:
    partition = PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2), preferred_read_replica=7)
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    decoded, _ = decode(FetchResponse, memoryview(encode(response, 12)), 12)
    assert decoded == response


def with_tags(encoded: bytes, *tags: tuple[int, bytes]) -> bytes:
    """Puts tagged fields where a message ends with an empty section of them."""
    assert encoded[-1] == 0
    section = unsigned_varint_bytes(len(tags))
    for tag, value in tags:
        section += unsigned_varint_bytes(tag) + unsigned_varint_bytes(len(value)) + value
    return encoded[:-1] + section


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = encode(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 3)
    data = with_tags(encoded, (0, b""), (5, b"x" * 200), (2**31 - 1, b"y"))
    decoded, end = decode(ApiVersionsRequest, memoryview(data), 3)
    assert end == len(data)
    assert decoded == ApiVersionsRequest(client_software_name="a", client_software_version="b")
    with_many_tags = with_tags(encoded, *((tag, b"z") for tag in range(300)))
    assert decode(ApiVersionsRequest, memoryview(with_many_tags), 3)[1] == len(with_many_tags)


def test_unknown_tags_beside_known_ones_are_skipped() -> None:
    encoded = encode(FetchRequest(), 15)
    state = b"\0\0\0\x03" + b"\0" * 8 + b"\0"
    data = with_tags(encoded, (1, state), (77, b"unknown"))
    decoded, end = decode(FetchRequest, memoryview(data), 15)
    assert end == len(data)
    assert decoded.replica_state == ReplicaState(replica_id=3, replica_epoch=0)


def test_a_known_tag_whose_size_is_false_is_malformed() -> None:
    state = b"\0\0\0\x03" + b"\0" * 8 + b"\0"
    for wrong in (state + b"\0", state[:-1]):
        with pytest.raises(MalformedMessage):
            decode(FetchRequest, memoryview(with_tags(encode(FetchRequest(), 15), (1, wrong))), 15)


def test_null_where_the_version_does_not_allow_it_is_malformed() -> None:
    # In version 0 of Metadata an empty list asks for all topics; null came with version 1.
    null = b"\xff\xff\xff\xff"
    assert decode(MetadataRequest, memoryview(null), 1)[0].topics is None
    with pytest.raises(MalformedMessage, match="topics must not be null"):
        decode(MetadataRequest, memoryview(null), 0)


def test_a_nullable_structure() -> None:
    without = ConsumerGroupHeartbeatResponse(assignment=None)
    decoded, _ = decode(ConsumerGroupHeartbeatResponse, memoryview(encode(without, 0)), 0)
    assert decoded.assignment is None


def test_compact_strings_are_bounded_like_the_old_ones() -> None:
    longest = FindCoordinatorRequest(coordinator_keys=["x" * 32767])
    assert decode(FindCoordinatorRequest, memoryview(encode(longest, 4)), 4)[0] == longest
    with pytest.raises(ValueError, match="32768 bytes"):
        encode(FindCoordinatorRequest(coordinator_keys=["x" * 32768]), 4)
    data = b"\0" + b"\x02" + unsigned_varint_bytes(32769) + b"x" * 32768 + b"\0"
    with pytest.raises(MalformedMessage, match="32768 bytes"):
        decode(FindCoordinatorRequest, memoryview(data), 4)


def test_text_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    decoded, _ = decode(FindCoordinatorRequest, memoryview(b"\0\x02a\xff"), 0)
    assert decoded.key == "a\N{REPLACEMENT CHARACTER}"


def test_decoding_starts_where_it_is_told() -> None:
    encoded = encode(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3)]), 7)
    data = memoryview(b"head" + encoded + b"tail")
    decoded, end = decode(CreateTopicsRequest, data, 7, 4)
    assert decoded.topics[0].num_partitions == 3
    assert data[end:] == b"tail"


def test_messages_are_compared_and_shown_by_value() -> None:
    fetch_topic = FetchTopic(topic="t", partitions=[FetchPartition(partition=1)])
    assert fetch_topic == FetchTopic(topic="t", partitions=[FetchPartition(partition=1)])
    assert fetch_topic != FetchTopic(topic="t", partitions=[FetchPartition(partition=2)])
    assert fetch_topic != "t"
    assert "FetchTopic(topic='t'" in repr(fetch_topic)
    with pytest.raises(TypeError):
        hash(fetch_topic)


def test_a_count_is_compared_with_the_bytes_that_are_left() -> None:
    data = b"\0\0\x01\0\0\0\x01" + unsigned_varint_bytes(1001) + b"\x02t\x01\0" * 5
    with pytest.raises(MalformedMessage, match="topic_data exceeds"):
        decode(ProduceRequest, memoryview(data), 9)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16383, 16384, 2**21 - 1, 2**21, 2**28, 2**31 - 1])
def test_variable_length_integers(value: int) -> None:
    encoded = unsigned_varint_bytes(value)
    assert read_unsigned_varint(memoryview(encoded + b"\xff"), 0) == (value, len(encoded))
    assert all(byte & 0x80 for byte in encoded[:-1])


@pytest.mark.parametrize("encoded", [b"\xff\xff\xff\xff\x08", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x00"])
def test_a_variable_length_integer_of_more_than_31_bits_is_malformed(encoded: bytes) -> None:
    with pytest.raises(MalformedMessage, match="31 bits"):
        read_unsigned_varint(memoryview(encoded), 0)
