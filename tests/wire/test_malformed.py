"""For any bytes a decoder returns a message or raises MalformedMessage, and allocates no more than its budget."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.framing import parse_request_header
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.metadata_codec import decode_record
from ottla.wire.primitives import unsigned_varint_bytes
from ottla.wire.schema import FieldSpec, element_cost, fields_at
from tests.wire.values import MESSAGES, message_at, versions_of


def read_api_versions_response(body: memoryview) -> object:
    return decode(ApiVersionsResponse, body, 4)


def read_delete_groups(body: memoryview) -> object:
    return decode(DeleteGroupsRequest, body, 2)


# The bytes before the tagged fields.
PREFIXES = {
    read_api_versions_response: b"\0\0\x01\0\0\0\0",
    read_delete_groups: b"\x01",
    parse_request_header: b"\0\x2a\0\x02\0\0\0\x05\xff\xff",
}

GIANT_LENGTHS = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x7f\xff",
)


def damaged(encoded: bytes, random: Random) -> bytes:
    """The bytes after one of the accidents, or attacks, that may happen to them."""
    changed = bytearray(encoded)
    match random.randrange(5):
        case 0:
            return encoded[: random.randrange(len(encoded) + 1)]
        case 1:
            for _ in range(random.choice((1, 1, 2, 5))):
                if changed:
                    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        case 2:
            position = random.randrange(len(changed) + 1)
            giant = random.choice(GIANT_LENGTHS)
            changed[position : position + len(giant)] = giant
        case 3:
            position = random.randrange(len(changed) + 1)
            changed[position:position] = random.choice(GIANT_LENGTHS)
        case 4:
            changed = bytearray(random.randbytes(random.randrange(60)))
    return bytes(changed)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_damaged_bytes_are_a_message_or_malformed(cls: type[Message]) -> None:
    for version in versions_of(cls):
        random = Random(f"damage {cls.__name__} {version}")
        for _ in range(6):
            encoded = encode(message_at(cls, version, random), version)
            for _ in range(25):
                data = damaged(encoded, random)
                try:
                    _, end = decode(cls, memoryview(data), version)
                except MalformedMessage:
                    continue
                assert 0 <= end <= len(data)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_truncation_is_malformed(cls: type[Message]) -> None:
    version = cls.VERSIONS[1]
    random = Random(f"truncate {cls.__name__}")
    encoded = encode(message_at(cls, version, random), version)
    positions = range(len(encoded)) if len(encoded) < 300 else sorted(random.sample(range(len(encoded)), 300))
    for position in positions:
        with pytest.raises(MalformedMessage):
            decode(cls, memoryview(encoded)[:position], version)


def test_giant_lengths_allocate_nothing() -> None:
    random = Random("giant")
    cases = []
    for cls in MESSAGES:
        version = cls.VERSIONS[1]
        encoded = encode(message_at(cls, version, random), version)
        for giant in GIANT_LENGTHS:
            position = random.randrange(len(encoded) + 1)
            cases.append((cls, version, encoded[:position] + giant + encoded[position:]))
            cases.append((cls, version, giant * 3))
            # Compiles the functions before memory is counted.
        decode(cls, memoryview(encoded), version)
    tracemalloc.start()
    try:
        for cls, version, data in cases:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with contextlib.suppress(MalformedMessage):
                decode(cls, memoryview(data), version)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 100_000 + 100 * len(data), (cls, version, data[:40])
    finally:
        tracemalloc.stop()


def test_many_small_elements_cost_no_more_than_the_largest_frame() -> None:
    """Eight megabytes of topics without partitions would become objects of more than half a gigabyte."""
    count = 2_000_000
    data = b"\0\0\0\0\0\0\0" + unsigned_varint_bytes(count + 1) + b"\x02t\x01\0" * count + b"\0"
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="topic_data"):
            decode(ProduceRequest, memoryview(data), 9)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("cls", "version"), [(DeleteGroupsRequest, 3), (DeleteGroupsRequest, 1)])
def test_an_array_has_a_million_elements_at_most(cls: type[Message], version: int) -> None:
    """The shortest strings fit the budget and the frame; nothing is allocated before the check."""
    fits, too_many = (encode(cls(groups_names=[""] * count), version) for count in (1_000_000, 1_000_001))
    assert len(decode(cls, memoryview(fits), version)[0].groups_names) == 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match="groups_names"):
            decode(cls, memoryview(too_many), version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


# A structure with tagged fields of its own, one without, and the header of a request.
@pytest.mark.parametrize("read", [read_api_versions_response, read_delete_groups, parse_request_header])
def test_a_structure_has_ten_thousand_tagged_fields_at_most(read: Callable[[memoryview], object]) -> None:
    for count, is_read in ((10_000, True), (10_001, False), (0x7FFFFFFF, False)):
        tags = unsigned_varint_bytes(count) + b"".join(unsigned_varint_bytes(9 + tag) + b"\0" for tag in range(10_001))
        body = PREFIXES[read] + tags
        if is_read:
            read(memoryview(body))
        else:
            with pytest.raises(MalformedMessage, match="tagged fields"):
                read(memoryview(body))


def test_a_false_count_of_tagged_fields_is_noticed_before_they_are_read() -> None:
    with pytest.raises(MalformedMessage, match="200 tagged fields"):
        read_delete_groups(memoryview(b"\x01" + unsigned_varint_bytes(200) + b"\x09\0" * 199))


def test_what_is_counted_is_no_less_than_what_is_allocated() -> None:
    """Arrays at the edge of the budget; the seed is a message with few elements, repeated."""
    for cls, name, version in ((MetadataRequest, "topics", 12), (FetchRequest, "topics", 13)):
        field = next(f for f in fields_at(cls, version) if f.name == name)
        assert field.structure is not None
        request = cls(**{name: [message_at(field.structure, version, Random(i)) for i in range(2000)]})
        data = memoryview(encode(request, version))
        decode(cls, data, version)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            decoded, _ = decode(cls, data, version)
            used = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert decoded == request
        assert used < counted(field, getattr(request, name), version) + len(data)


def counted(field: FieldSpec, elements: list[Any], version: int) -> int:
    total = len(elements) * element_cost(field, version)
    if field.structure is not None:
        for inner in fields_at(field.structure, version):
            if inner.present and inner.is_array:
                total += sum(counted(inner, getattr(element, inner.name) or [], version) for element in elements)
    return total


def test_damaged_metadata_records() -> None:
    random = Random("metadata")
    for _ in range(3000):
        data = bytes((1, random.randrange(30), random.randrange(4))) + random.randbytes(random.randrange(40))
        with contextlib.suppress(MalformedMessage):
            decode_record(memoryview(damaged(data, random)))


def test_damaged_request_headers() -> None:
    random = Random("headers")
    good = b"\0\0\0\x09\0\0\0\x05\0\x07clientA\x02\x00\x01a\x05\x02bc"
    for _ in range(5000):
        data = damaged(good, random)
        try:
            header = parse_request_header(memoryview(data))
        except MalformedMessage:
            continue
        assert 10 <= header.body_position <= len(data)
