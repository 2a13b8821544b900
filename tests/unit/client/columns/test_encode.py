"""Arrow rows to record batches: both encoders, against what comes back when the batches are read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.columns.encode import COMPILED, EncodedBatch, TopicEncoder
from ottla.client.producer.partitioner import partition_of_key
from ottla.records.build import assemble_batch
from ottla.records.header import HEADER_SIZE
from ottla.records.iterate import iterate_batches, iterate_records

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
SCHEMA = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("headers", HEADERS),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("partition", pyarrow.int32()),
    ]
)
NOW = 1_700_000_000_000
KINDS = [False, pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="the encoder is not compiled here"))]


def encoder(compiled: bool, **changes: Any) -> TopicEncoder:
    known: dict[str, Any] = {"partitions": 4, "available": (0, 1, 2, 3), "batch_bytes": 400, "seed": 7}
    return TopicEncoder(**{**known, **changes}, compiled=compiled)


def rows_of(rows: Sequence[dict[str, Any]], schema: pyarrow.Schema = SCHEMA) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pylist(list(rows), schema=schema)


def records(batches: Sequence[EncodedBatch]) -> list[tuple[int, int, Any, Any, list[Any]]]:
    """(partition, timestamp, key, value, headers) of every record."""
    decoded = []
    for encoded in batches:
        batch = assemble_batch(
            encoded.records.payload,
            base_offset=0,
            last_offset_delta=encoded.records.record_count - 1,
            record_count=encoded.records.record_count,
            attributes=0,
            base_timestamp=encoded.records.base_timestamp,
            max_timestamp=encoded.records.max_timestamp,
        )
        read = [
            record for decoded_batch in iterate_batches(memoryview(batch)) for record in iterate_records(decoded_batch)
        ]
        assert [record.offset for record in read] == list(range(encoded.records.record_count))
        assert max(record.timestamp for record in read) == encoded.records.max_timestamp
        decoded += [
            (
                encoded.partition,
                record.timestamp,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                [(name, None if content is None else bytes(content)) for name, content in record.headers],
            )
            for record in read
        ]
    return decoded


pieces = st.one_of(st.none(), st.binary(max_size=40))
rows_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "key": pieces,
            "value": st.one_of(pieces, st.binary(min_size=120, max_size=600)),
            "headers": st.one_of(
                st.none(), st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": pieces}), max_size=3)
            ),
            "timestamp": st.one_of(
                st.none(),
                st.integers(0, 4_000_000_000_000_000).map(
                    lambda micros: (
                        datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)
                    )
                ),
            ),
            "partition": st.one_of(st.none(), st.integers(0, 3)),
        }
    ),
    max_size=30,
)


@pytest.mark.skipif(not COMPILED, reason="the encoder is not compiled here")
@given(first=rows_strategy, second=rows_strategy, cut=st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_both_encoders_give_the_same_batches(
    first: list[dict[str, Any]], second: list[dict[str, Any]], cut: int
) -> None:
    encodings = []
    for compiled in (False, True):
        batch_encoder = encoder(compiled, extra_headers=[("origin", b"here")] if cut % 2 else [])
        # A slice shares the buffers of the whole, from its own first row on.
        full = batch_encoder.encode(rows_of(first).slice(cut), now_ms=NOW)
        full += batch_encoder.encode(rows_of(second), now_ms=NOW)
        encodings.append(full + batch_encoder.finish())
    assert encodings[0] == encodings[1]


@pytest.mark.parametrize("compiled", KINDS)
@given(rows=rows_strategy)
@settings(max_examples=40, deadline=None)
def test_every_row_comes_back_as_it_was(compiled: bool, rows: list[dict[str, Any]]) -> None:
    batch_encoder = encoder(compiled)
    decoded = records([*batch_encoder.encode(rows_of(rows), now_ms=NOW), *batch_encoder.finish()])
    assert len(decoded) == len(rows)
    expected_rows: dict[int, list[Any]] = {}
    decoded_rows: dict[int, list[Any]] = {}
    for row in rows:
        micros = row["timestamp"]
        when = NOW if micros is None else int(micros.timestamp() * 1_000_000 + 0.5) // 1000
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        key = row["key"]
        number = row["partition"]
        if number is None and key is not None:
            number = partition_of_key(key, 4)
        expected_rows.setdefault(-1 if number is None else number, []).append((key, row["value"], headers, when))
    chosen = {(number, key, value) for number, _, key, value, _ in decoded}
    for number, when, key, value, headers in decoded:
        decoded_rows.setdefault(number, []).append((key, value, headers, when))
    for number, several in expected_rows.items():
        if number >= 0:
            # Order holds within a partition; keyless rows lie between.
            left = iter(decoded_rows[number])
            assert all(any(_same(row, other) for other in left) for row in several)
    assert len(chosen) <= len(rows)


def _same(row: Any, other: Any) -> bool:
    # Floating point loses a millisecond of distant timestamps; the encoder does not.
    return row[:3] == other[:3] and abs(row[3] - other[3]) <= 1


@pytest.mark.parametrize("compiled", KINDS)
def test_keyless_rows_stick_to_a_partition_until_its_batch_is_full(compiled: bool) -> None:
    batch_encoder = encoder(compiled, available=(1, 3))
    full = batch_encoder.encode(rows_of([{"value": b"x" * 90}] * 40), now_ms=NOW) + batch_encoder.finish()
    assert all(HEADER_SIZE + len(batch.records.payload) <= 400 for batch in full)
    assert {batch.partition for batch in full} == {1, 3}
    assert all(batch.records.record_count == 3 for batch in full[:-1])


@pytest.mark.parametrize("compiled", KINDS)
def test_a_record_larger_than_a_batch_goes_alone(compiled: bool) -> None:
    batch_encoder = encoder(compiled, partitions=1, available=(0,))
    full = (
        batch_encoder.encode(rows_of([{"value": b"a"}, {"value": b"b" * 5000}, {"value": b"c"}]), now_ms=NOW)
        + batch_encoder.finish()
    )
    assert [batch.records.record_count for batch in full] == [1, 1, 1]
    assert [value for _, _, _, value, _ in records(full)] == [b"a", b"b" * 5000, b"c"]


@pytest.mark.parametrize("compiled", KINDS)
@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"value": b"", "partition": 4}, "there is no partition 4, the topic has 4"),
        ({"value": b"", "headers": [{"key": None, "value": b""}]}, "the header key of row 0 is null"),
        ({"value": b"", "timestamp": -1}, "lies before 1970"),
    ],
)
def test_what_kafka_cannot_hold_is_refused(compiled: bool, row: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        encoder(compiled).encode(rows_of([row]), now_ms=NOW)


@pytest.mark.parametrize("compiled", KINDS)
def test_large_and_text_columns_are_read_as_well(compiled: bool) -> None:
    schema = pyarrow.schema(
        [
            ("key", pyarrow.large_string()),
            ("value", pyarrow.string()),
            ("headers", pyarrow.large_list(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.null())]))),
            ("timestamp", pyarrow.timestamp("ms", "UTC")),
            ("partition", pyarrow.int64()),
        ]
    )
    row = {"key": "schlüssel", "value": "wert", "headers": [{"key": "a", "value": None}], "partition": 2}
    batch_encoder = encoder(compiled)
    full = batch_encoder.encode(rows_of([row], schema), now_ms=NOW) + batch_encoder.finish()
    assert records(full) == [(2, NOW, "schlüssel".encode(), b"wert", [("a", None)])]


@pytest.mark.parametrize("compiled", KINDS)
def test_columns_that_are_null_throughout_or_absent(compiled: bool) -> None:
    schema = pyarrow.schema([("key", pyarrow.null()), ("value", pyarrow.binary())])
    batch_encoder = encoder(compiled, extra_headers=[("run", b"7")])
    full = batch_encoder.encode(rows_of([{"value": None}], schema), now_ms=NOW) + batch_encoder.finish()
    assert [record[1:] for record in records(full)] == [(NOW, None, None, [("run", b"7")])]


@pytest.mark.parametrize("compiled", KINDS)
def test_the_fields_of_a_header_may_have_any_order(compiled: bool) -> None:
    """A pandas frame has them in the order of its dictionaries."""
    headers = pyarrow.array([[{"value": b"v", "key": "k"}]])
    table = pyarrow.record_batch({"value": pyarrow.array([b"x"]), "headers": headers})
    batch_encoder = encoder(compiled)
    full = batch_encoder.encode(table, now_ms=NOW) + batch_encoder.finish()
    assert [record[-1] for record in records(full)] == [[("k", b"v")]]


@pytest.mark.parametrize("compiled", KINDS)
def test_nanoseconds_are_cut_off(compiled: bool) -> None:
    """pandas has nanoseconds by default."""
    nanoseconds = [1_700_000_000_123_999_999, 1_700_000_000_124_000_000, 999_999, None]
    table = pyarrow.record_batch(
        {
            "value": pyarrow.array([b"x"] * len(nanoseconds)),
            "timestamp": pyarrow.array(nanoseconds, pyarrow.timestamp("ns")),
            "partition": pyarrow.array([0] * len(nanoseconds), pyarrow.int32()),
        }
    )
    batch_encoder = encoder(compiled)
    full = batch_encoder.encode(table, now_ms=NOW) + batch_encoder.finish()
    assert [record[1] for record in records(full)] == [1_700_000_000_123, 1_700_000_000_124, 0, NOW]
