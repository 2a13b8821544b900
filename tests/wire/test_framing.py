"""Headers and sizes around messages, and the frame of metadata records."""

from __future__ import annotations

import pytest

from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, UnsupportedVersion, decode, encode
from ottla.wire.framing import parse_request, parse_request_header, request_parts, response_parts
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.metadata_records import NoOpRecord, PartitionRecord, TopicRecord
from ottla.wire.metadata_codec import decode_record, encode_record


@pytest.mark.parametrize("client_id", ["console-producer", "", None, "ü"])
@pytest.mark.parametrize("version", [8, 9])
def test_a_request_header_is_read(client_id: str | None, version: int) -> None:
    flexible = version >= 9
    header = RequestHeader(request_api_key=3, request_api_version=version, correlation_id=7, client_id=client_id)
    frame = encode(header, 2 if flexible else 1) + b"body"
    parsed = parse_request_header(memoryview(frame))
    assert (parsed.api_key, parsed.api_version, parsed.correlation_id, parsed.client_id) == (3, version, 7, client_id)
    assert frame[parsed.body_position :] == b"body"


def test_tags_of_a_request_header_are_skipped() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=9, correlation_id=7, client_id="c")
    frame = encode(header, 2)[:-1] + b"\x01\x05\x02xy" + b"body"
    assert frame[parse_request_header(memoryview(frame)).body_position :] == b"body"


def test_the_header_of_an_unknown_api_or_version_can_be_read() -> None:
    parsed = parse_request_header(memoryview(b"\x7f\xff\0\x05\0\0\0\x01\xff\xff"))
    assert (parsed.api_key, parsed.api_version, parsed.correlation_id, parsed.client_id) == (32767, 5, 1, None)
    parsed = parse_request_header(memoryview(b"\0\x12\x03\xe7\0\0\0\x01\xff\xff\0"))
    assert (parsed.api_key, parsed.api_version, parsed.correlation_id) == (18, 999, 1)


@pytest.mark.parametrize(
    "frame", [b"", b"\0\x03\0\x09\0\0\0\x07\0", b"\0\x03\0\x09\0\0\0\x07\0\x05abcd", b"\0\x03\0\x09\0\0\0\x07\0\0"]
)
def test_a_short_request_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_request_header(memoryview(frame))


@pytest.mark.parametrize("version", [8, 12])
def test_a_request_survives_framing(version: int) -> None:
    frame = b"".join(bytes(part) for part in request_parts(3, version, 5, "me", MetadataRequest(topics=None)))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, request = parse_request(memoryview(frame)[4:])
    assert (header.correlation_id, header.client_id) == (5, "me")
    assert request == MetadataRequest(topics=None)


def test_a_malformed_request() -> None:
    with pytest.raises(MalformedMessage, match="key 999"):
        parse_request(memoryview(b"\x03\xe7\0\0\0\0\0\0\xff\xff"))
    # Produce 0 to 2 is announced for the sake of old clients, but no longer spoken.
    assert API_SPECS[ApiKey.PRODUCE].request_min_version == 0
    assert not API_SPECS[ApiKey.PRODUCE].is_readable(2)
    with pytest.raises(UnsupportedVersion):
        parse_request(memoryview(b"\0\0\0\x02\0\0\0\0\xff\xff\0\x01\0\0\0\0\0\0\0\0"))


@pytest.mark.parametrize(("version", "header_version"), [(8, 0), (12, 1)])
def test_a_response_is_framed(version: int, header_version: int) -> None:
    (part,) = response_parts(ApiKey.METADATA, version, 77, MetadataResponse(cluster_id="c"))
    frame = memoryview(bytes(part))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, position = decode(ResponseHeader, frame[4:], header_version)
    assert header.correlation_id == 77
    response, end = decode(MetadataResponse, frame[4:], version, position)
    assert response.cluster_id == "c"
    assert end == len(frame) - 4


def test_api_versions_is_answered_with_the_oldest_header() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    (part,) = response_parts(18, 4, 1, response)
    assert decode(ApiVersionsResponse, memoryview(bytes(part))[8:], 4)[0] == response
    header, request = parse_request(
        memoryview(b"".join(request_parts(18, 4, 1, None, ApiVersionsRequest(client_software_name="x")))[4:])
    )
    assert (header.client_id, request) == (None, ApiVersionsRequest(client_software_name="x"))


def test_the_size_covers_records_that_are_parts_of_their_own() -> None:
    records = memoryview(b"r" * 1000)
    partitions = [PartitionData(partition_index=i, records=records) for i in range(3)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=Uuid.ONE, partitions=partitions)])
    parts = response_parts(ApiKey.FETCH, 13, 9, response)
    assert sum(part is records for part in parts) == 3
    frame = b"".join(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(FetchResponse, memoryview(frame), 13, 9)[0] == response


def test_metadata_records_carry_frame_type_and_version() -> None:
    record = TopicRecord(name="orders", topic_id=Uuid(b"0123456789abcdef"))
    value = encode_record(record)
    assert value == b"\x01\x02\x00" + b"\x07orders" + b"0123456789abcdef" + b"\x00"
    assert decode_record(memoryview(value)) == record
    partition = PartitionRecord(partition_id=1, topic_id=Uuid.ONE, replicas=[1], isr=[1], leader=1)
    assert encode_record(partition)[:3] == b"\x01\x03\x02"
    assert encode_record(partition, 0)[:3] == b"\x01\x03\x00"
    assert decode_record(memoryview(encode_record(partition, 1))) == partition
    with pytest.raises(AssertionError):
        encode_record(MetadataRequest())


@pytest.mark.parametrize(
    "value",
    [b"", b"\x01", b"\x01\x14", b"\x00\x14\x00\x00", b"\x01\x06\x00\x00", b"\x01\x14\x01\x00", b"\x01\x14\x00\x00\x00"],
)
def test_what_is_not_one_metadata_record_is_malformed(value: bytes) -> None:
    assert decode_record(memoryview(b"\x01\x14\x00\x00")) == NoOpRecord()
    with pytest.raises(MalformedMessage):
        decode_record(memoryview(value))
