"""The header of a record batch: 61 bytes, decoded into one object.

Layout of magic 2, big-endian::

     0 base offset        8      21 attributes          2
     8 batch length       4      23 last offset delta   4
    12 leader epoch       4      27 base timestamp      8
    16 magic              1      35 max timestamp       8
    17 CRC32C of 21...    4      43 producer id         8
                                 51 producer epoch      2
                                 53 base sequence       4
                                 57 record count        4

The checksum does not cover base offset and leader epoch, so the leader sets both in place. Magic 0 and 1 have offset,
length and magic byte at the same positions. Their headers are decoded into the same class, with -1 for the fields that
they lack. Their `base_offset` is the offset of the message itself, which for a compressed wrapper is the offset of its
*last* inner message.
"""

from __future__ import annotations

from struct import Struct

from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecords

__all__ = [
    "ATTRIBUTES_LOW_BYTE",
    "ATTRIBUTES_POSITION",
    "BASE_OFFSET",
    "BATCH_LENGTH_POSITION",
    "BatchHeader",
    "CODEC_MASK",
    "CONTROL_BIT",
    "CRC_POSITION",
    "DELETE_HORIZON_BIT",
    "HEAD",
    "HEADER",
    "HEADER_SIZE",
    "LEADER_EPOCH",
    "LEADER_EPOCH_POSITION",
    "LEGACY_OVERHEAD",
    "LENGTH_OVERHEAD",
    "MAGIC",
    "MAGIC_POSITION",
    "MAX_TIMESTAMP_POSITION",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "PRODUCER",
    "PRODUCER_AND_COUNT",
    "PRODUCER_ID_AND_EPOCH",
    "PRODUCER_POSITION",
    "TIMESTAMP_TYPE_BIT",
    "TRANSACTIONAL_BIT",
    "read_header",
    "set_base_offset_and_epoch",
    "stamp",
    "write_header",
]

MAGIC = 2
"""The record format that all current clients write; the layout above is its layout."""

HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 61

BASE_OFFSET = Struct(">q")
LEADER_EPOCH = Struct(">i")
HEAD = Struct(">qiibI")
"""Everything that the checksum does not cover, and the checksum itself."""
PRODUCER = Struct(">qhi")
"""Producer id, producer epoch and base sequence."""
PRODUCER_AND_COUNT = Struct(">qhii")
"""The last fields of a header: as `PRODUCER`, and the record count."""

BATCH_LENGTH_POSITION = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
"""The checksum covers the batch from here to its end."""
ATTRIBUTES_LOW_BYTE = 22
"""The low byte of the attributes, which holds all defined bits: codec, timestamp type, transactional, control."""
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43
PRODUCER_ID_AND_EPOCH = slice(43, 53)

LENGTH_OVERHEAD = 12
"""The size of base offset and batch length, which the batch length does not include."""

assert HEAD.size == ATTRIBUTES_POSITION
assert PRODUCER_POSITION + PRODUCER_AND_COUNT.size == HEADER_SIZE

LEGACY_OVERHEAD = 14
"""The smallest message body of magic 0: CRC, magic, attributes, null key, null value."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

_PREFIX = Struct(">qiib")

stamp = Struct(">qii").pack_into
"""stamp(buffer, position, base_offset, batch_length, leader_epoch): like `set_base_offset_and_epoch`, in one call, for
callers that know the batch length, which lies between the two fields."""


class BatchHeader:
    """The header of a batch. It is a copy: changing it does not change the buffer."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        # Positional parameters in the order of the encoding, so that the tuple of `unpack_from` can be passed directly.
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name in BatchHeader.__slots__)
        return f"BatchHeader({fields})"

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, including the header."""
        return LENGTH_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequence numbers wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptRecords(
                f"Unknown compression codec {self.attributes & CODEC_MASK} in a record batch"
            ) from None

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def uses_append_time(self) -> bool:
        return self.attributes & TIMESTAMP_TYPE_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the batch's tombstones may be removed (KIP-534): the base timestamp if the bit is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Decodes the header of the batch at `position`, of any magic. Checks lengths, but not the checksum."""
    remaining = len(buffer) - position
    if remaining >= HEADER_SIZE and buffer[position + MAGIC_POSITION] == MAGIC:
        return BatchHeader(*HEADER.unpack_from(buffer, position))
    if remaining <= MAGIC_POSITION:
        raise CorruptRecords(f"{remaining} bytes are too few for the header of a record batch")
    base_offset, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if magic == MAGIC:
        raise CorruptRecords(f"{remaining} bytes are too few for the header of a record batch of magic 2")
    if magic not in (0, 1):
        raise CorruptRecords(f"Unknown magic {magic} at offset {base_offset}")
    if length < LEGACY_OVERHEAD or remaining < LENGTH_OVERHEAD + LEGACY_OVERHEAD:
        raise CorruptRecords(f"A message of {length} bytes is shorter than the minimum of {LEGACY_OVERHEAD}")
    return _read_legacy_header(buffer, position, base_offset, length, magic)


def set_base_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Writes the leader's offset and epoch into the header in place; the checksum does not cover them."""
    BASE_OFFSET.pack_into(buffer, position, base_offset)
    LEADER_EPOCH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Writes a header of magic 2 with the checksum that it holds."""
    HEADER.pack_into(
        buffer,
        position,
        header.base_offset,
        header.batch_length,
        header.leader_epoch,
        header.magic,
        header.crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def _read_legacy_header(
    buffer: bytes | bytearray | memoryview, position: int, offset: int, length: int, magic: int
) -> BatchHeader:
    crc = int.from_bytes(buffer[position + 12 : position + 16], "big")
    attributes = buffer[position + 17]
    timestamp = NO_TIMESTAMP
    if magic == 1:
        timestamp = int.from_bytes(buffer[position + 18 : position + 26], "big", signed=True)
    # The only attributes are the codec and, in magic 1, the timestamp type; other bits are ignored.
    attributes &= CODEC_MASK | TIMESTAMP_TYPE_BIT if magic == 1 else CODEC_MASK
    count = -1 if attributes & CODEC_MASK else 1
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, -1, -1, -1, count)
