"""Records into Arrow: the compiled decoder and its twin against the plain reader of records."""

from __future__ import annotations

import shutil
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.columns.decode import ArrowDecoder, columns_type, is_native
from ottla.client.columns.schema import arrow_schema
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecords
from ottla.records.header import HEADER_SIZE, read_header
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.legacy import build_message_set
from ottla.records.record import Record

EVERYTHING = (0, 1 << 62)
KINDS = ["python", *(["native"] if is_native() else [])]

names = st.text(max_size=10)
contents = st.none() | st.binary(max_size=200)
records = st.builds(
    Record,
    key=contents,
    value=contents,
    headers=st.lists(st.tuples(names, contents), max_size=4),
    timestamp=st.integers(0, 1 << 45),
)


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema("headers" in batch.schema.names))
    return [
        (
            row["offset"],
            row["timestamp"] // 1000,
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row.get("headers", ())],
        )
        for row in without_times(batch).to_pylist()
    ]


def without_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times as numbers, because Python's datetime cannot represent all of them."""
    place = batch.schema.get_field_index("timestamp")
    return batch.set_column(place, "timestamp", batch.column(place).view(pa.int64()))


def expected(buffer: bytes | bytearray, first: int, end: int) -> list[tuple[Any, ...]]:
    return [
        (record.offset, record.timestamp, record.key, record.value, list(record.headers))
        for batch in iterate_batches(buffer)
        for record in iterate_records(batch)
        if first <= record.offset < end
    ]


def decoded(kind: str, buffer: bytes | bytearray, first: int, end: int) -> pa.RecordBatch:
    decoder = ArrowDecoder("topic", 3, decoder=kind)
    for batch in iterate_batches(buffer):
        decoder.add(batch.header, batch.view, first, end)
    return decoder.finish()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_the_compiled_decoder_is_there_where_there_is_a_compiler() -> None:
    assert is_native(), "the decoder was not built; `make setup` says why"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(
    batches=st.lists(st.lists(records, min_size=1, max_size=20), min_size=1, max_size=4),
    codec=st.sampled_from(Codec),
    first=st.integers(0, 30),
    length=st.integers(0, 60),
)
def test_a_decoder_gives_what_the_reader_of_records_gives(
    kind: str, batches: list[list[Record]], codec: Codec, first: int, length: int
) -> None:
    buffer = bytearray()
    offset = 0
    for batch_records in batches:
        buffer += build_batch(batch_records, base_offset=offset, codec=codec)
        offset += len(batch_records) + 3
    for start, end in ((first, first + length), EVERYTHING):
        assert rows_of(decoded(kind, buffer, start, end)) == expected(buffer, start, end)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_broker_stamped_is_the_time_of_every_record(kind: str) -> None:
    buffer = bytearray(build_batch([Record(value=b"1", timestamp=5), Record(value=b"2", timestamp=9)]))
    buffer[22] |= 0x08
    batch = decoded(kind, buffer, *EVERYTHING)
    assert [row[1] for row in rows_of(batch)] == [9, 9]
    assert batch.column("timestampType").to_pylist() == [1, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_headers_that_are_not_utf_8(kind: str) -> None:
    batch = bytearray(build_batch([Record(value=b"", headers=[("abc\u00e4", b"1")])]))
    place = batch.index("\u00e4".encode())
    batch[place] = 0xFF
    rows = rows_of(decoded(kind, batch, *EVERYTHING))
    assert rows == expected(batch, *EVERYTHING)
    assert rows[0][4] == [("abc\ufffd\ufffd", b"1")]


@pytest.mark.parametrize("kind", KINDS)
def test_without_headers(kind: str) -> None:
    buffer = build_batch([Record(key=b"k", value=b"v", headers=[("h", b"1")])])
    decoder = ArrowDecoder("topic", 0, include_headers=False, decoder=kind)
    batch = next(iterate_batches(buffer))
    decoder.add(batch.header, batch.view, *EVERYTHING)
    assert "headers" not in decoder.finish().schema.names


@pytest.mark.parametrize("kind", KINDS)
def test_times_beyond_what_microseconds_can_say(kind: str) -> None:
    times = [(1 << 62), -(1 << 62), (1 << 63) // 1000, -1]
    columns = [
        decoded(kind, build_batch([Record(value=b"", timestamp=time)]), *EVERYTHING)
        .column("timestamp")
        .view(pa.int64())
        for time in times
    ]
    assert [column.to_pylist() for column in columns] == [
        [(1 << 63) - 1],
        [-(1 << 63)],
        [(1 << 63) // 1000 * 1000],
        [-1000],
    ]


def test_formats_before_batches() -> None:
    records = [Record(offset=4, key=b"k", value=b"1", timestamp=7), Record(offset=5, key=None, value=None, timestamp=8)]
    buffer = build_message_set(records, magic=1)
    decoder = ArrowDecoder("topic", 0)
    rows = []
    for batch in iterate_batches(buffer):
        rows += rows_of(decoder.legacy(batch.header, batch.view, 0, 100))
    assert rows == [(4, 7, b"k", b"1", []), (5, 8, None, None, [])]


def outcome(kind: str, payload: bytes, count: int) -> Any:
    """The columns of a payload; None if the payload is refused."""
    columns = columns_type(kind)(True)
    try:
        columns.add(payload, count, 100, 1_000, False, -1, *EVERYTHING)
    except ValueError:
        return None
    rows, *rest = columns.finish()
    return rows, [tuple(map(plain, column)) if isinstance(column, tuple) else plain(column) for column in rest]


def plain(part: Any) -> Any:
    return part if isinstance(part, int) else bytes(memoryview(part))


@pytest.mark.skipif(not is_native(), reason="the decoder was not built")
@settings(max_examples=200)
@given(
    batch_records=st.lists(records, min_size=1, max_size=6),
    damage=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 40),
    more=st.binary(max_size=4),
    count=st.integers(-2, 9),
)
def test_damage_is_refused_by_both_or_read_alike(
    batch_records: list[Record], damage: list[tuple[int, int]], cut: int, more: bytes, count: int
) -> None:
    payload = bytearray(build_batch(batch_records)[HEADER_SIZE:])
    for place, value in damage:
        payload[place % len(payload)] = value
    payload = bytearray(payload[: max(0, len(payload) - cut)] + more)
    for claimed in (count, len(batch_records)):
        native, python = outcome("native", bytes(payload), claimed), outcome("python", bytes(payload), claimed)
        if native is None or python is None:
            # Numbers that no writer writes: Python's have no end, and are refused a little later.
            assert native is None
            continue
        assert native[0] == python[0]
        assert trimmed(native) == trimmed(python)


@pytest.mark.skipif(not is_native(), reason="the decoder was not built")
@settings(max_examples=200)
@given(payload=st.binary(max_size=300), count=st.integers(-5, 50))
def test_any_bytes_whatsoever_do_no_harm(payload: bytes, count: int) -> None:
    native, python = outcome("native", payload, count), outcome("python", payload, count)
    assert native is None or (python is not None and trimmed(native) == trimmed(python))


def trimmed(decoded_payload: Any) -> Any:
    """Removes the validity bits behind the last row: they are reserved for claimed records and have no meaning."""
    rows, columns = decoded_payload
    kept = []
    for column in columns:
        if isinstance(column, tuple):
            nulls, bits, offsets, data = column
            size = len(offsets) // 4 - 1 if offsets else 0
            kept.append((nulls, bits[: (max(0, size) + 7) // 8], offsets if size > 0 else b"", data))
        else:
            kept.append(column if rows else b"")
    return rows, kept


@pytest.mark.parametrize("kind", KINDS)
def test_damage_has_a_name(kind: str) -> None:
    buffer = bytearray(build_batch([Record(value=b"value")]))
    buffer[HEADER_SIZE] = 0x7F
    decoder = ArrowDecoder("topic", 0, decoder=kind)
    with pytest.raises(CorruptRecords, match="batch at offset 0 is damaged"):
        decoder.add(read_header(buffer), memoryview(buffer), *EVERYTHING)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_released_batches_is_used_again_and_that_of_kept_ones_is_not(kind: str) -> None:
    def large(number: int) -> bytearray:
        return build_batch([Record(value=bytes([number]) * 100_000, key=b"%d" % number)])

    kept = []
    for number in range(40):
        batch = decoded(kind, large(number), *EVERYTHING)
        if number % 3 == 0:
            kept.append((number, batch))
        del batch
    for number, batch in kept:
        assert [(key, value) for _, _, key, value, _ in rows_of(batch)] == [(b"%d" % number, bytes([number]) * 100_000)]
