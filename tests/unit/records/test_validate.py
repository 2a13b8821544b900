"""What the leader accepts from a producer, what it rewrites, and what it refuses with which code."""

from __future__ import annotations

from random import Random

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records import iterate
from ottla.records.build import assemble_batch, build_batch, set_checksum
from ottla.records.compression import Codec
from ottla.records.control import build_end_transaction_marker
from ottla.records.errors import InvalidRecords
from ottla.records.header import HEADER, HEADER_SIZE, BatchHeader, read_header, write_header
from ottla.records.iterate import iterate_batches, iterate_records, verify_checksum
from ottla.records.legacy import build_message_set
from ottla.records.record import Record
from ottla.records.validate import (
    RECORDS_PER_BYTE_MAX,
    AppendOrigin,
    ProduceSettings,
    ValidatedRecords,
    validate_produce,
)

NOW_MS = 1_700_000_000_000
PLAIN = ProduceSettings()


def some_records(count: int = 5, *, key: bytes | None = b"key", timestamp: int = NOW_MS) -> list[Record]:
    return [Record(key=key, value=b"value-%d" % index * 20, timestamp=timestamp + index) for index in range(count)]


def validate(batch: bytes | bytearray, settings: ProduceSettings = PLAIN, **options: object) -> ValidatedRecords:
    return validate_produce(memoryview(batch), settings=settings, now_ms=NOW_MS, **options)  # type: ignore[arg-type]


def refused(batch: bytes | bytearray, settings: ProduceSettings = PLAIN, **options: object) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        validate(batch, settings, **options)
    return caught.value


def changed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with header fields changed and a checksum that fits."""
    header = BatchHeader(*HEADER.unpack_from(batch))
    for name, value in fields.items():
        setattr(header, name, value)
    copy = bytearray(batch)
    write_header(copy, 0, header)
    set_checksum(memoryview(copy))
    return copy


def read_all(validated: ValidatedRecords) -> list[Record]:
    return [record for batch in iterate_batches(validated.buffer) for record in iterate_records(batch)]


def test_fast_path_answers_with_the_very_same_bytes() -> None:
    batch = build_batch(some_records())
    view = memoryview(batch)
    validated = validate_produce(view, settings=PLAIN, now_ms=NOW_MS)
    assert validated.buffer is view
    assert validated.record_count == 5
    assert validated.positions == [0]
    assert validated.headers[0].last_offset_delta == 4
    assert validated.max_timestamp == NOW_MS + 4
    assert validated.append_time_ms == -1


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_passes_unopened(codec: Codec) -> None:
    batch = build_batch(some_records(), codec=codec)
    before = bytes(batch)
    assert bytes(validate(batch).buffer) == before


def test_read_only_bytes_are_copied_into_a_writable_buffer() -> None:
    validated = validate(bytes(build_batch(some_records())))
    assert not validated.buffer.readonly


def test_any_changed_byte_of_the_summed_part_is_corrupt() -> None:
    batch = build_batch(some_records(2))
    for position in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        assert refused(damaged).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60, 61, 62, -1])
def test_cut_off_batch_is_no_batch(size: int) -> None:
    batch = build_batch(some_records())
    assert refused(batch[:size]).code == ErrorCode.INVALID_RECORD


def test_cut_off_second_batch_is_trimmed() -> None:
    batch = build_batch(some_records())
    validated = validate(batch + batch[:30])
    assert bytes(validated.buffer) == bytes(batch)


def test_second_batch_is_refused() -> None:
    batch = build_batch(some_records())
    assert refused(batch + batch).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_unknown_magic_is_corrupt(magic: int) -> None:
    assert refused(changed(build_batch(some_records()), magic=magic)).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_need_an_old_request(magic: int) -> None:
    messages = build_message_set([Record(key=b"k", value=b"v", timestamp=NOW_MS, offset=0)], magic=magic)
    assert refused(messages).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 1},
        {"record_count": 4},
        {"record_count": 0},
        {"record_count": -1},
        {"last_offset_delta": 5},
        {"last_offset_delta": -1, "record_count": 0},
        {"attributes": 0x20},
        {"attributes": 0x10},
        {"producer_id": 7},
        {"record_count": 2_000_000, "last_offset_delta": 1_999_999},
    ],
)
def test_inconsistent_header_is_invalid(fields: dict[str, int]) -> None:
    assert refused(changed(build_batch(some_records()), **fields)).code == ErrorCode.INVALID_RECORD


def test_unknown_codec_is_corrupt() -> None:
    assert refused(changed(build_batch(some_records()), attributes=5)).code == ErrorCode.CORRUPT_MESSAGE


def test_batch_larger_than_the_topic_allows() -> None:
    batch = build_batch(some_records())
    assert validate(batch, ProduceSettings(max_message_bytes=len(batch))).record_count == 5
    error = refused(batch, ProduceSettings(max_message_bytes=len(batch) - 1))
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_needs_version_seven(version: int) -> None:
    batch = build_batch(some_records(), codec=Codec.ZSTD)
    assert refused(batch, api_version=version).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(batch, api_version=7).record_count == 5


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "shift_ms", "is_accepted"),
    [
        (1000, 1000, -1000, True),
        (1000, 1000, -1001, False),
        (1000, 1004, 1000, True),
        (1000, 1003, 1000, False),
        ((1 << 63) - 1, 3_600_000, -NOW_MS, True),
    ],
)
def test_create_time_bounds(before_ms: int, after_ms: int, shift_ms: int, is_accepted: bool) -> None:
    settings = ProduceSettings(timestamp_before_max_ms=before_ms, timestamp_after_max_ms=after_ms)
    batch = build_batch(some_records(timestamp=NOW_MS + shift_ms))
    if is_accepted:
        assert validate(batch, settings).record_count == 5
        return
    error = refused(batch, settings)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert isinstance(error, InvalidRecords)
    assert [entry.batch_index for entry in error.record_errors] == ([0] if shift_ms < 0 else [4])


def test_records_without_timestamp_pass_the_bounds() -> None:
    settings = ProduceSettings(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
    batch = build_batch([Record(key=b"k", value=b"v", timestamp=-1)])
    assert validate(batch, settings).max_timestamp == -1


def test_largest_timestamp_below_the_first_is_set_right() -> None:
    batch = changed(build_batch(some_records()), max_timestamp=5)
    validated = validate(batch)
    assert validated.max_timestamp == NOW_MS + 4
    assert verify_checksum(validated.buffer, validated.headers[0])


def test_append_time_is_stamped_over_header_and_checksum() -> None:
    batch = build_batch(some_records(timestamp=5), codec=Codec.LZ4)
    validated = validate(batch, ProduceSettings(uses_append_time=True, timestamp_before_max_ms=0))
    header = read_header(validated.buffer)
    assert header.uses_append_time
    assert header.max_timestamp == validated.max_timestamp == validated.append_time_ms == NOW_MS
    assert verify_checksum(validated.buffer, header)
    assert {record.timestamp for record in read_all(validated)} == {NOW_MS}


def test_producer_may_not_claim_append_time() -> None:
    batch = build_batch(some_records(), append_time_ms=NOW_MS)
    assert refused(batch, ProduceSettings(uses_append_time=True)).code == ErrorCode.INVALID_TIMESTAMP
    assert not read_header(validate(batch).buffer).uses_append_time


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topic_names_the_records_without_key(codec: Codec) -> None:
    records = some_records()
    records[1].key = records[3].key = None
    error = refused(build_batch(records, codec=codec), ProduceSettings(is_compacted=True))
    assert error.code == ErrorCode.INVALID_RECORD
    assert isinstance(error, InvalidRecords)
    assert [entry.batch_index for entry in error.record_errors] == [1, 3]


def test_compacted_topic_takes_keyed_records_and_empty_keys() -> None:
    records = some_records()
    records[0].key = b""
    batch = build_batch(records)
    assert validate(batch, ProduceSettings(is_compacted=True)).buffer.obj is batch


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_topic_codec_wins(source: Codec, target: Codec) -> None:
    records = some_records()
    batch = build_batch(records, codec=source, producer_id=9, producer_epoch=2, base_sequence=77, is_transactional=True)
    validated = validate(batch, ProduceSettings(compression=target))
    header = validated.headers[0]
    assert header.codec == target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 77)
    assert header.is_transactional
    assert verify_checksum(validated.buffer, header)
    assert [record.value for record in read_all(validated)] == [record.value for record in records]
    assert [record.timestamp for record in read_all(validated)] == [record.timestamp for record in records]
    assert (validated.buffer.obj is batch) == (source == target)


def test_unpacking_makes_the_batch_too_large() -> None:
    batch = build_batch(some_records(100), codec=Codec.ZSTD)
    settings = ProduceSettings(compression=Codec.NONE, max_message_bytes=len(batch) + 10)
    assert refused(batch, settings).code == ErrorCode.MESSAGE_TOO_LARGE


def test_unpacking_is_bounded() -> None:
    batch = build_batch([Record(key=b"k", value=bytes(1_000_000), timestamp=NOW_MS)], codec=Codec.ZSTD)
    settings = ProduceSettings(is_compacted=True, decompressed_bytes_max=100_000)
    assert refused(batch, settings).code == ErrorCode.INVALID_RECORD


def test_wrong_offset_deltas_are_renumbered() -> None:
    records = some_records(3)
    for index, record in enumerate(records):
        record.offset = index * 2
    batch = changed(build_batch(records), last_offset_delta=2)
    validated = validate(batch, ProduceSettings(is_compacted=True))
    assert [record.offset for record in read_all(validated)] == [0, 1, 2]
    assert [record.value for record in read_all(validated)] == [record.value for record in records]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("append_time", [False, True])
def test_offsets_are_not_handed_out_for_records_that_cannot_be(codec: Codec, append_time: bool) -> None:
    for count in (100_000, (1 << 31) - 1):
        batch = changed(build_batch(some_records(5), codec=codec), record_count=count, last_offset_delta=count - 1)
        error = refused(batch, ProduceSettings(uses_append_time=append_time))
        assert error.code == ErrorCode.INVALID_RECORD


def test_many_records_in_few_bytes_are_believed_after_a_look() -> None:
    batch = build_batch([Record(key=b"k", value=b"", timestamp=NOW_MS) for _ in range(20_000)], codec=Codec.ZSTD)
    assert len(batch) < 20_000
    assert validate(batch).buffer.obj is batch


def test_lying_count_is_found_where_records_are_opened() -> None:
    batch = changed(build_batch(some_records(5), codec=Codec.GZIP), record_count=6, last_offset_delta=5)
    assert refused(batch, ProduceSettings(is_compacted=True)).code == ErrorCode.INVALID_RECORD


def test_coordinator_may_write_markers_that_a_client_may_not() -> None:
    marker = build_end_transaction_marker(
        is_commit=True, coordinator_epoch=3, producer_id=5, producer_epoch=1, timestamp_ms=NOW_MS
    )
    assert refused(marker).code == ErrorCode.INVALID_RECORD
    settings = ProduceSettings(is_compacted=True, compression=Codec.ZSTD)
    validated = validate(marker, settings, origin=AppendOrigin.COORDINATOR)
    assert validated.headers[0].is_control
    assert bytes(validated.buffer) == bytes(marker)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_messages_become_one_batch(magic: int, codec: Codec) -> None:
    records = some_records(4)
    for index, record in enumerate(records):
        record.offset = index
    validated = validate(build_message_set(records, magic=magic, codec=codec), api_version=2)
    header = validated.headers[0]
    assert (header.magic, header.codec, header.record_count, header.last_offset_delta) == (2, codec, 4, 3)
    converted = read_all(validated)
    assert [record.value for record in converted] == [record.value for record in records]
    expected = [record.timestamp for record in records] if magic == 1 else [-1] * 4
    assert [record.timestamp for record in converted] == expected


def test_header_size_is_part_of_the_contract() -> None:
    assert HEADER_SIZE == 61


class TestClaimedCounts:
    """A batch that claims more records than its bytes can hold is refused before it is decompressed."""

    def bomb(self, count: int, codec: Codec, *, claimed: int | None = None) -> bytearray:
        """`count` equal records of seven bytes, which compress to almost nothing."""
        claimed = count if claimed is None else claimed
        return assemble_batch(
            b"\x0c\0\0\0\1\1\0" * count,
            base_offset=0,
            last_offset_delta=claimed - 1,
            record_count=claimed,
            attributes=codec,
            base_timestamp=NOW_MS,
            max_timestamp=NOW_MS,
        )

    @pytest.fixture
    def no_decompression(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise AssertionError("the batch was decompressed")

        monkeypatch.setattr(iterate, "decompress", fail)

    @pytest.mark.usefixtures("no_decompression")
    @pytest.mark.parametrize(
        "settings", [PLAIN, ProduceSettings(is_compacted=True), ProduceSettings(compression=Codec.LZ4)]
    )
    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
    def test_more_records_than_four_for_every_byte(self, codec: Codec, settings: ProduceSettings) -> None:
        batch = self.bomb(100_000, codec)
        assert len(batch) * RECORDS_PER_BYTE_MAX < 100_000
        assert refused(batch, settings).code == ErrorCode.INVALID_RECORD

    @pytest.mark.usefixtures("no_decompression")
    @pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    def test_more_records_than_the_blocks_can_hold(self, codec: Codec) -> None:
        """The block lengths of the stream bound its decompressed size."""
        noise = Random(1).randbytes(20_000)
        batch = build_batch([Record(key=b"k", value=noise, timestamp=NOW_MS)], codec=codec)
        claimed = len(batch) * RECORDS_PER_BYTE_MAX
        batch = changed(batch, record_count=claimed, last_offset_delta=claimed - 1)
        if codec == Codec.SNAPPY:
            # The ratio of snappy is bounded by 64 only, so the limit of the topic decides.
            settings = ProduceSettings(is_compacted=True, decompressed_bytes_max=claimed * 7 - 1)
        else:
            settings = ProduceSettings(is_compacted=True)
        assert refused(batch, settings).code == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    def test_the_most_compressible_honest_batch_is_accepted(self, codec: Codec) -> None:
        records = [Record(key=b"", value=None, timestamp=NOW_MS) for _ in range(10_000)]
        for settings in (PLAIN, ProduceSettings(is_compacted=True), ProduceSettings(compression=Codec.NONE)):
            assert validate(build_batch(records, codec=codec), settings).record_count == 10_000

    def test_a_message_set_with_too_many_messages(self) -> None:
        records = [Record(key=b"k", value=b"", timestamp=NOW_MS, offset=0) for _ in range(20_000)]
        messages = build_message_set(records, magic=1, codec=Codec.GZIP)
        assert len(messages) * RECORDS_PER_BYTE_MAX < 20_000
        assert refused(messages, api_version=2).code == ErrorCode.INVALID_RECORD

    def test_the_records_at_fault_are_kept_up_to_the_limit_of_the_response(self) -> None:
        """The lists of records without a key or with a bad timestamp do not grow with the batch."""
        records = [Record(key=None, value=b"v", timestamp=NOW_MS) for _ in range(12_000)]
        error = refused(build_batch(records), ProduceSettings(is_compacted=True))
        assert isinstance(error, InvalidRecords)
        assert [record.batch_index for record in error.record_errors] == list(range(10_000))
