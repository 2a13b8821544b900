"""What is built is what is read, for any records, every codec and every format, and against aiokafka's own reader."""

from __future__ import annotations

import warnings
from contextlib import suppress
from zlib import crc32

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.build import build_batch, build_value_batch
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecords
from ottla.records.header import read_header, set_base_offset_and_epoch
from ottla.records.iterate import iterate_batches, iterate_records, record_values, verify_checksum
from ottla.records.legacy import build_message_set, convert_to_batch, iterate_messages
from ottla.records.record import Record, append_record, scan_records
from ottla.records.varint import VARLONG_BYTES_MAX, append_varint, read_varint, varint_size

with warnings.catch_warnings():
    # The library reads its schema files in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

LIMIT = 16 * 1024 * 1024
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]

some_bytes = st.none() | st.binary(max_size=300)
some_headers = st.lists(st.tuples(st.text(max_size=20), some_bytes), max_size=3)
some_timestamp = st.integers(min_value=-1, max_value=4_000_000_000_000)


@st.composite
def record_lists(draw: st.DrawFn, *, with_headers: bool = True) -> list[Record]:
    first = draw(st.integers(min_value=0, max_value=1 << 50))
    return [
        Record(
            key=draw(some_bytes),
            value=draw(some_bytes),
            headers=draw(some_headers) if with_headers else [],
            timestamp=draw(some_timestamp),
            offset=first + index,
        )
        for index in range(draw(st.integers(min_value=1, max_value=8)))
    ]


def read_back(data: bytes | bytearray) -> list[Record]:
    return [record for batch in iterate_batches(data) for record in iterate_records(batch)]


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_varints(value: int) -> None:
    target = bytearray()
    append_varint(target, value)
    assert len(target) == varint_size(value)
    assert read_varint(target, 0, bytes_max=VARLONG_BYTES_MAX) == (value, len(target))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01"])
def test_varints_that_do_not_end(data: bytes) -> None:
    with pytest.raises(CorruptRecords):
        read_varint(data, 0)


@given(records=record_lists(), codec=st.sampled_from(Codec))
@settings(max_examples=150, deadline=None)
def test_batch_of_any_records(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, base_offset=records[0].offset, codec=codec, leader_epoch=3)
    header = read_header(batch)
    assert verify_checksum(memoryview(batch), header)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.size == len(batch)
    assert read_back(batch) == records
    [read_batch] = iterate_batches(batch)
    assert record_values(read_batch) == [record.value or b"" for record in records]


@given(records=record_lists(), codec=st.sampled_from(Codec))
@settings(max_examples=100, deadline=None)
def test_aiokafka_reads_what_we_write(records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, base_offset=records[0].offset, codec=codec, producer_id=4, producer_epoch=1)
    theirs = MemoryRecords(bytes(batch)).next_batch()
    assert theirs is not None
    assert theirs.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert read == [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]


@given(records=record_lists(), codec=st.sampled_from(Codec))
@settings(max_examples=100, deadline=None)
def test_we_read_what_aiokafka_writes(records: list[Record], codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=77,
        producer_epoch=5,
        base_sequence=12,
        batch_size=1 << 20,
    )
    for index, record in enumerate(records):
        # aiokafka's builder writes timestamps relative to the first and needs a real timestamp.
        record.timestamp = max(0, record.timestamp)
        assert builder.append(
            index, timestamp=record.timestamp, key=record.key, value=record.value, headers=list(record.headers)
        )
    batch = builder.build()
    header = read_header(batch)
    assert verify_checksum(memoryview(batch), header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 5, 12)
    assert header.is_transactional
    set_base_offset_and_epoch(batch, 0, records[0].offset, 9)
    assert read_header(batch).leader_epoch == 9
    assert read_back(batch) == records


@given(records=record_lists(with_headers=False), magic=st.sampled_from([0, 1]), codec=st.sampled_from(OLD_CODECS))
@settings(max_examples=100, deadline=None)
def test_old_formats_of_any_records(records: list[Record], magic: int, codec: Codec) -> None:
    expected = [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in records]
    messages = build_message_set(records, magic=magic, codec=codec)
    read = [(r.offset, r.timestamp, r.key, r.value) for r in iterate_messages(messages, limit=LIMIT)]
    assert read == expected
    converted = read_back(convert_to_batch(messages, limit=LIMIT, codec=codec))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in converted] == expected
    # A log that still holds old messages is walked with the same two functions.
    walked = read_back(messages)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in walked] == expected


@given(records=record_lists(with_headers=False), magic=st.sampled_from([0, 1]), codec=st.sampled_from(OLD_CODECS))
@settings(max_examples=60, deadline=None)
def test_we_read_old_formats_that_aiokafka_writes(records: list[Record], magic: int, codec: Codec) -> None:
    if codec == Codec.LZ4 and magic == 0:
        return  # Theirs refuses it.
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for index, record in enumerate(records):
        assert builder.append(index, timestamp=max(0, record.timestamp), key=record.key, value=record.value)
    messages = builder.build()
    read = [(r.offset, r.timestamp, r.key, r.value) for r in iterate_messages(messages, limit=LIMIT)]
    # A producer leaves the wrapper's offset at 0; the broker that converts numbers the records itself.
    shift = 0 if codec == Codec.NONE or magic == 0 else -(len(records) - 1)
    expected = [
        (shift + index, max(0, r.timestamp) if magic else -1, r.key, r.value) for index, r in enumerate(records)
    ]
    assert read == expected


@given(records=record_lists(with_headers=False), magic=st.sampled_from([0, 1]), codec=st.sampled_from(OLD_CODECS))
@settings(max_examples=60, deadline=None)
def test_aiokafka_reads_old_formats_that_we_write(records: list[Record], magic: int, codec: Codec) -> None:
    if codec == Codec.LZ4 and magic == 0:
        return  # Theirs refuses it.
    theirs = MemoryRecords(bytes(build_message_set(records, magic=magic, codec=codec)))
    read = []
    while theirs.has_next():
        batch = theirs.next_batch()
        assert batch is not None
        # aiokafka returns None for a missing timestamp: always in magic 0, and for -1 in magic 1.
        read += [(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in batch]
    assert read == [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in records]


@given(records=record_lists(with_headers=False), codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
@settings(max_examples=40, deadline=None)
def test_kafka_python_reads_every_format(records: list[Record], codec: Codec) -> None:
    written = [
        (0, build_message_set(records, magic=0, codec=codec)),
        (1, build_message_set(records, magic=1, codec=codec)),
        (2, build_batch(records, base_offset=records[0].offset, codec=codec)),
    ]
    for magic, data in written:
        theirs = KafkaPythonRecords(bytes(data))
        read = []
        while (batch := theirs.next_batch()) is not None:
            assert batch.validate_crc()
            read += [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in batch]
        assert read == [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in records]


def test_wrapper_with_append_time_dates_all_inner_messages() -> None:
    records = [Record(key=b"k", value=b"v", timestamp=index, offset=5 + index) for index in range(3)]
    messages = build_message_set(records, magic=1, codec=Codec.GZIP, append_time_ms=99)
    assert {record.timestamp for record in iterate_messages(messages, limit=LIMIT)} == {99}


def test_lz4_frames_of_magic_0_have_a_wrong_header_checksum() -> None:
    records = [Record(key=b"k", value=b"v" * 50, offset=0)]
    for magic in (0, 1):
        messages = build_message_set(records, magic=magic, codec=Codec.LZ4)
        start = messages.index(b"\x04\x22\x4d\x18")
        messages[start + 6] ^= 0xFF
        messages[12:16] = crc32(messages[16:]).to_bytes(4, "big")
        if magic == 0:
            assert next(iterate_messages(messages, limit=LIMIT)).value == b"v" * 50
        else:
            with pytest.raises(CorruptRecords):
                list(iterate_messages(messages, limit=LIMIT))


def test_batches_one_after_another_with_a_cut_off_last_one() -> None:
    first = build_batch([Record(value=b"a", timestamp=1)], base_offset=0)
    second = build_batch([Record(value=b"b", timestamp=2), Record(value=b"c", timestamp=3)], base_offset=1)
    whole = bytes(first + second)
    assert [batch.position for batch in iterate_batches(whole)] == [0, len(first)]
    for end in range(len(first), len(whole)):
        assert [batch.header.base_offset for batch in iterate_batches(whole[:end])] == [0]


@given(data=st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for source in (data, bytes(16) + b"\x02" + data, bytes(8) + b"\x00\x00\x00\x40" + data):
        with suppress(CorruptRecords):
            for batch in iterate_batches(source):
                verify_checksum(batch.view, batch.header)
                records = list(iterate_records(batch, limit=1 << 20))
                assert record_values(batch, limit=1 << 20) == [record.value or b"" for record in records]


@given(records=record_lists(), position=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
@settings(max_examples=200, deadline=None)
def test_changed_payload_bytes_never_escape_the_scan(records: list[Record], position: int, flip: int) -> None:
    payload = bytearray()
    for index, record in enumerate(records):
        append_record(
            payload,
            offset_delta=index,
            timestamp_delta=0,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
    payload[position % len(payload)] ^= flip
    with suppress(CorruptRecords):
        for span in scan_records(payload, len(records)):
            assert 0 <= span.start < span.rest < span.key_start <= span.end <= len(payload)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 9_000])
def test_a_batch_of_values_is_the_batch_of_such_records(count: int) -> None:
    values = [b"v" * (number % 300) for number in range(count)]
    records = [Record(value=value, timestamp=77) for value in values]
    expected = build_batch(records, base_offset=5, leader_epoch=3)
    assert build_value_batch(values, timestamp_ms=77, base_offset=5, leader_epoch=3) == expected
