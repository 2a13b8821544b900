"""Records one by one: the compiled functions and their twins give the same bytes, records and refusals."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client import fast
from ottla.client.consumer.decode import ConsumedRecord
from ottla.client.fast import twin
from ottla.records.record import decode_records as reference

pieces = st.none() | st.binary(max_size=200)
rows = st.lists(
    st.tuples(
        st.integers(-(2**40), 2**40),
        pieces,
        pieces,
        st.lists(st.tuples(st.text(max_size=12), pieces), max_size=3),
    ),
    max_size=20,
)
KINDS = [pytest.param(twin, id="python"), pytest.param(fast, id="in use")]


def encoded(kind: Any, records: list[Any]) -> bytearray:
    payload = bytearray()
    for index, (delta, key, value, headers) in enumerate(records):
        kind.append_record(payload, delta, index, key, value, headers)
    return payload


def decoded(kind: Any, payload: Any, count: int, **options: Any) -> Any:
    arguments = {
        "base_offset": 100,
        "base_timestamp": 5,
        "append_time": None,
        "from_offset": -1,
        "limit": 1_000,
        **options,
    }
    try:
        return kind.decode_records(
            ConsumedRecord,
            payload,
            count,
            "t",
            3,
            arguments["base_offset"],
            arguments["base_timestamp"],
            arguments["append_time"],
            0,
            7,
            arguments["from_offset"],
            arguments["limit"],
        )
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(records=rows)
def test_what_is_encoded_is_decoded(kind: Any, records: list[Any]) -> None:
    payload = encoded(kind, records)
    assert payload == encoded(twin, records)
    records_read = decoded(kind, payload, len(records))
    assert [tuple(record)[2:4] + tuple(record)[5:8] for record in records_read] == [
        (100 + index, 5 + delta, key, value, headers or ())
        for index, (delta, key, value, headers) in enumerate(records)
    ]
    assert all(
        type(record) is ConsumedRecord and (record.topic, record.partition, record.leader_epoch) == ("t", 3, 7)
        for record in records_read
    )
    known = reference(bytes(payload), len(records), base_offset=100, base_timestamp=5)
    assert [(record.offset, record.timestamp, record.value) for record in known] == [
        (record.offset, record.timestamp, record.value) for record in records_read
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_append_time_and_first_offset(kind: Any) -> None:
    payload = encoded(twin, [(index, b"k", b"v", []) for index in range(10)])
    records = decoded(kind, memoryview(payload), 10, append_time=77, from_offset=106)
    assert [(record.offset, record.timestamp) for record in records] == [(106, 77), (107, 77), (108, 77), (109, 77)]
    assert [record.offset for record in decoded(kind, payload, 10, from_offset=103, limit=2)] == [103, 104]


@settings(max_examples=300)
@given(records=rows, data=st.data())
def test_damaged_payloads_are_refused_alike(records: list[Any], data: st.DataObject) -> None:
    payload = encoded(twin, records)
    count = len(records) + data.draw(st.integers(0, 2))
    if payload:
        for _ in range(data.draw(st.integers(0, 4))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        payload = payload[: data.draw(st.integers(0, len(payload)))]
    assert decoded(fast, payload, count) == decoded(twin, payload, count)


@given(key=st.binary(max_size=100), partitions=st.integers(1, 1000))
def test_partitions_of_keys(key: bytes, partitions: int) -> None:
    assert fast.partition_of_key(key, partitions) == twin.partition_of_key(key, partitions)


@pytest.mark.parametrize("kind", KINDS)
def test_other_buffers_are_bytes_too(kind: Any) -> None:
    first, second = bytearray(), bytearray()
    kind.append_record(first, 0, 0, b"key", b"value", ())
    kind.append_record(second, 0, 0, bytearray(b"key"), memoryview(b"value"), [])
    assert first == second


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [("text", b"", ()), (b"", 5, ()), (b"", b"", [("name", "text")]), (b"", b"", [(1, b"")])],
)
def test_what_is_no_bytes_is_refused_and_leaves_nothing(kind: Any, key: Any, value: Any, headers: Any) -> None:
    payload = bytearray(b"before")
    with pytest.raises((TypeError, AttributeError)):
        kind.append_record(payload, 0, 0, key, value, headers)
    assert payload == b"before"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_it_is_compiled_where_there_is_a_compiler() -> None:
    assert fast.COMPILED, "the functions were not built; `make setup` says why"


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_behind_a_records_end_are_not_read_even_if_the_record_is_skipped(kind: Any) -> None:
    # The length covers the attributes only; the deltas that follow are outside the record.
    payload = bytes([2, 0, 0, 0, 1, 1, 0])
    assert decoded(kind, payload, 1, from_offset=200) == "record 0 of 1 is damaged"


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_beyond_64_bits_are_refused_and_sums_wrap_around(kind: Any) -> None:
    payload = encoded(twin, [(0, None, b"", ()), (0, None, b"", ())])
    largest = 2**63 - 1
    assert [record.offset for record in decoded(kind, payload, 2, base_offset=largest, from_offset=-(2**63))] == [
        largest,
        -(2**63),
    ]
    body = bytes([0, *[0xFF] * 9, 0x03, 0, 1, 1, 0])
    assert decoded(kind, bytes([2 * len(body)]) + body, 1) == "record 0 of 1 is damaged"
