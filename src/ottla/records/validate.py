"""Validation of produced records by a partition's leader.

Most batches take the fast path, which checks the 61-byte header and one CRC32C over the bytes but does not decode the
records. This is a deliberate difference from Apache Kafka, which decompresses and iterates over every batch. Records
are decoded only if the topic's configuration requires it (keys of a compacted topic, a `compression.type` that differs
from the producer's codec, formats before magic 2), or if the header is implausible, because the response then names the
invalid records.

Offsets are assigned later by the log, with `set_base_offset_and_epoch`.
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
from ottla.records.schema_tags import SchemaRules, SchemaTags

if TYPE_CHECKING:
    from ottla.model.config import LogConfig

__all__ = [
    "RECORDS_PER_BYTE_MAX",
    "AppendOrigin",
    "ProduceSettings",
    "ValidatedRecords",
    "validate_by_header",
    "validate_produce",
]

TIMESTAMP_UNBOUNDED_MS = (1 << 63) - 1

PRODUCE_VERSION_ZSTD = 7
"""The first Produce version that allows zstd (KIP-110)."""
PRODUCE_VERSION_LATEST = 13

RECORDS_PER_BYTE_MAX = 4
"""The largest record count of a compressed batch for each of its bytes; a larger count is refused unopened.

Equal records differ in their offset deltas, so the most compressible batches have 1.7 records for each byte (zstd).
"""

_UNUSUAL_ATTRIBUTES = 0xFFFF & ~(CODEC_MASK | TRANSACTIONAL_BIT)


class AppendOrigin(IntEnum):
    """The origin of appended records: clients may do less than the broker's coordinators and the Raft quorum."""

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2
    REPLICATION = 3


# Plain constants for the fast path: an attribute access on an enumeration costs more than the comparison.
_CLIENT = int(AppendOrigin.CLIENT)
_CODEC_LAST = int(Codec.ZSTD)
_unpack_header = HEADER.unpack_from


class ProduceSettings:
    """The topic settings that validation depends on, computed once per configuration instead of once per request."""

    __slots__ = (
        "compression",
        "compression_level",
        "decodes_no_records",
        "decompressed_bytes_max",
        "is_compacted",
        "max_message_bytes",
        "mirror_name",
        "schemas",
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
        mirror_name: str = "",
        schemas: SchemaRules | None = None,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.is_compacted = is_compacted
        self.uses_append_time = uses_append_time
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.compression = compression
        """The codec of `compression.type`; None for `producer`, which keeps the producer's codec."""
        self.compression_level = compression_level
        self.decompressed_bytes_max = decompressed_bytes_max
        self.mirror_name = mirror_name
        """The mirror that alone writes to the topic, with offsets of another cluster; empty for an ordinary topic."""
        self.schemas = schemas
        """Which schemas records must name; None if they are not looked at."""
        self.decodes_no_records = (
            not is_compacted and compression is None and not uses_append_time and not mirror_name and schemas is None
        )

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
            mirror_name=config.ottla_mirror_name,
            schemas=_schema_rules(config),
        )


def _schema_rules(config: LogConfig) -> SchemaRules | None:
    if not config.confluent_key_schema_validation and not config.confluent_value_schema_validation:
        return None
    return SchemaRules(
        config.confluent_key_subject_name_strategy if config.confluent_key_schema_validation else "",
        config.confluent_value_subject_name_strategy if config.confluent_value_schema_validation else "",
    )


class ValidatedRecords:
    """Valid batches of magic 2 in one writable buffer, with offsets from 0.

    `positions[i]` is the position of the batch of `headers[i]`. `append_time_ms` is set if the topic uses the broker's
    timestamps (LogAppendTime); the batches already contain it. `schema_tags` is set if the topic checks schemas.
    """

    __slots__ = (
        "append_time_ms",
        "buffer",
        "headers",
        "max_timestamp",
        "offset_of_max_timestamp_delta",
        "positions",
        "record_count",
        "schema_tags",
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
        schema_tags: SchemaTags | None = None,
    ) -> None:
        self.buffer = buffer
        self.headers = headers
        self.positions = positions
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp_delta = offset_of_max_timestamp_delta
        self.record_count = record_count
        self.append_time_ms = append_time_ms
        self.schema_tags = schema_tags


def validate_produce(
    records: memoryview,
    *,
    settings: ProduceSettings,
    now_ms: int,
    api_version: int = PRODUCE_VERSION_LATEST,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> ValidatedRecords:
    """Validates the records of one partition in a Produce request. Raises the KafkaError for the response.

    Unless records have to be rewritten, the result's buffer is `records` itself, which should therefore be writable; a
    read-only view is copied.
    """
    if origin == _CLIENT:
        validated = validate_by_header(records, settings=settings, now_ms=now_ms, api_version=api_version)
        if validated is not None:
            return validated
    from ottla.records.validate_slow import validate_slowly

    return validate_slowly(records, settings=settings, now_ms=now_ms, api_version=api_version, origin=origin)


def validate_by_header(
    records: memoryview, *, settings: ProduceSettings, now_ms: int, api_version: int
) -> ValidatedRecords | None:
    """The fast path of `validate_produce`, for records of clients. Returns None if the slow path has to decide."""
    size = len(records)
    if size > HEADER_SIZE and settings.decodes_no_records and api_version >= PRODUCE_VERSION_ZSTD:
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
            # Offsets are assigned according to the record count, so a batch with an implausible count is decoded: an
            # uncompressed record has at least seven bytes, a compressed record rarely less than one byte.
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
    return None
