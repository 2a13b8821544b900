"""Producer state on disk: `<offset>.snapshot`, the state of every producer as of that offset.

Version 1, big-endian: version (2 bytes), CRC32C of everything after the checksum (4), number of entries (4), and 46
bytes for each producer. Only the last of the five batches is kept. A snapshot is written when a segment rolls and at a
clean shutdown. A restart begins with the latest intact snapshot and reads the log from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

from ottla.records.checksum import crc32c
from ottla.storage.names import SNAPSHOT_SUFFIX, offset_file_name, offset_of_file
from ottla.storage.producer_state import ProducerBatch, ProducerEntry

__all__ = ["CorruptSnapshot", "decode_snapshot", "encode_snapshot", "snapshot_offsets", "snapshot_path"]

_HEAD = Struct(">hIi")
_CRC_END = 6
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_PRODUCERS_MAX = 50_000_000
"""More entries than a node can write: guards against a damaged count."""


class CorruptSnapshot(Exception):
    """The file is not a complete snapshot."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_transaction_first_offset,
        )
        for entry in entries
    ]
    data = bytearray(_HEAD.size)
    _HEAD.pack_into(data, 0, _VERSION, 0, len(packed))
    data += b"".join(packed)
    _HEAD.pack_into(data, 0, _VERSION, crc32c(memoryview(data)[_CRC_END:]), len(packed))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    try:
        version, crc, count = _HEAD.unpack_from(data)
    except error:
        raise CorruptSnapshot(f"{len(data)} bytes are too few") from None
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if not 0 <= count <= _PRODUCERS_MAX or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes cannot hold {count} producers")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshot("its checksum is wrong")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :])]


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset_file_name(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots in a partition's directory, lowest first."""
    offsets = [offset_of_file(name) for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(offset for offset in offsets if offset is not None)


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_transaction_first_offset: int,
) -> ProducerEntry:
    batches = (ProducerBatch(last_sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else ()
    return ProducerEntry(
        producer_id,
        epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        current_transaction_first_offset=current_transaction_first_offset,
        batches=batches,
    )
