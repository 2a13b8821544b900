"""What a leader checks before it appends what a producer sent.

Most batches pass on the fast path: one look at the 61-byte header and one CRC32C over the bytes. The records inside
are not opened, which is the one deliberate difference to Apache Kafka (it walks every record of every batch, and
unpacks compressed ones to do so). Records are opened only where the topic's settings need it: keys of a compacted
topic, a `compression.type` that differs from the producer's codec, formats before magic 2 - and whenever the header
looks wrong, because then the answer should name the records at fault.

Offsets are not assigned here: the log does that under its own order, by `set_base_offset_and_epoch`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from ottla.records.record import RECORD_SIZE_MIN

if TYPE_CHECKING:
    from ottla.model.config import LogConfig

__all__ = ["AppendOrigin", "ProduceSettings", "ValidatedRecords", "validate_produce"]

TIMESTAMP_UNBOUNDED_MS = (1 << 63) - 1

PRODUCE_VERSION_ZSTD = 7
"""The first Produce version whose readers know zstd (KIP-110)."""
PRODUCE_VERSION_LATEST = 13

_UNUSUAL_ATTRIBUTES = 0xFFFF & ~(CODEC_MASK | TRANSACTIONAL_BIT)


class AppendOrigin(IntEnum):
    """Who appends: a client may do less than the broker's own coordinators and its Raft quorum."""

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2
    REPLICATION = 3


# Plain names for the fast path: an attribute of an enumeration costs more than the comparison it is wanted for.
_CLIENT = int(AppendOrigin.CLIENT)
_CODEC_LAST = int(Codec.ZSTD)
_unpack_header = HEADER.unpack_from


class ProduceSettings:
    """The topic settings that the checks depend on, prepared once per configuration and not once per request."""

    __slots__ = (
        "compression",
        "compression_level",
        "decompressed_bytes_max",
        "is_compacted",
        "max_message_bytes",
        "opens_no_records",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "uses_append_time",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int = 1048588,
        is_compacted: bool = False,
        uses_append_time: bool = False,
        timestamp_before_max_ms: int = TIMESTAMP_UNBOUNDED_MS,
        timestamp_after_max_ms: int = 3_600_000,
        compression: Codec | None = None,
        compression_level: int | None = None,
        decompressed_bytes_max: int = 128 * 1024 * 1024,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.is_compacted = is_compacted
        self.uses_append_time = uses_append_time
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.compression = compression
        """The codec of `compression.type`; None stands for `producer`: whatever the producer chose."""
        self.compression_level = compression_level
        self.decompressed_bytes_max = decompressed_bytes_max
        self.opens_no_records = not is_compacted and compression is None and not uses_append_time

    @classmethod
    def from_log_config(cls, config: LogConfig) -> ProduceSettings:
        name = config.compression_type
        compression = None
        level = None
        if name != "producer":
            compression = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
            level = {
                Codec.GZIP: config.compression_gzip_level,
                Codec.LZ4: config.compression_lz4_level,
                Codec.ZSTD: config.compression_zstd_level,
            }.get(compression)
        return cls(
            max_message_bytes=config.max_message_bytes,
            is_compacted="compact" in config.cleanup_policy,
            uses_append_time=config.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            compression=compression,
            compression_level=level,
        )


class ValidatedRecords:
    """Batches of magic 2 that may be appended, in one writable buffer, their offsets counted from 0.

    `positions[i]` is where the batch of `headers[i]` begins. `append_time_ms` is set where the topic's timestamps are
    the broker's (LogAppendTime); the batches already carry it.
    """

    __slots__ = (
        "append_time_ms",
        "buffer",
        "headers",
        "max_timestamp",
        "offset_of_max_timestamp_delta",
        "positions",
        "record_count",
    )

    def __init__(
        self,
        buffer: memoryview,
        headers: list[BatchHeader],
        positions: list[int],
        max_timestamp: int,
        offset_of_max_timestamp_delta: int,
        record_count: int,
        append_time_ms: int,
    ) -> None:
        self.buffer = buffer
        self.headers = headers
        self.positions = positions
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp_delta = offset_of_max_timestamp_delta
        self.record_count = record_count
        self.append_time_ms = append_time_ms


def validate_produce(
    records: memoryview,
    *,
    settings: ProduceSettings,
    now_ms: int,
    api_version: int = PRODUCE_VERSION_LATEST,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> ValidatedRecords:
    """Checks one partition's records of a Produce request; raises the `KafkaError` that is its answer.

    The answer's buffer is `records` itself wherever nothing has to be rewritten, so a writable view is wanted; a
    read-only one is copied.
    """
    size = len(records)
    if size > HEADER_SIZE and settings.opens_no_records and origin == _CLIENT and api_version >= PRODUCE_VERSION_ZSTD:
        fields = _unpack_header(records)
        (
            base_offset,
            batch_length,
            _,
            magic,
            checksum,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            _,
            base_sequence,
            count,
        ) = fields
        if (
            magic == 2
            and batch_length == size - LENGTH_OVERHEAD
            and size <= settings.max_message_bytes
            and base_offset == 0
            and 0 < count == last_offset_delta + 1
            # Offsets are handed out by the claimed count, so a claim that the bytes do not make likely is looked at
            # closely: an unpacked record has at least seven bytes, a packed one seldom less than one.
            and (count <= size if attributes & CODEC_MASK else count * RECORD_SIZE_MIN <= size - HEADER_SIZE)
            and attributes & _UNUSUAL_ATTRIBUTES == 0
            and attributes & CODEC_MASK <= _CODEC_LAST
            and (base_sequence >= 0 if producer_id >= 0 else not attributes & TRANSACTIONAL_BIT)
            and max_timestamp >= base_timestamp
            and max_timestamp - now_ms <= settings.timestamp_after_max_ms
            and now_ms - base_timestamp <= settings.timestamp_before_max_ms
            and crc32c(records[ATTRIBUTES_POSITION:]) == checksum
        ):
            if records.readonly:
                records = memoryview(bytearray(records))
            header = BatchHeader(*fields)
            return ValidatedRecords(records, [header], [0], max_timestamp, last_offset_delta, count, -1)
    from ottla.records.validate_slow import validate_closely

    return validate_closely(records, settings=settings, now_ms=now_ms, api_version=api_version, origin=origin)
