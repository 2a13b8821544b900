"""Control records, which brokers write into partitions and consumers skip.

The key holds a version and a type, two 16-bit numbers; the value depends on the type. A control record of type abort or
commit ends a transaction, and its value holds the coordinator's epoch. For the types of the Raft quorum (KIP-595,
KIP-630, KIP-853) this module handles only the keys; `ottla.quorum` encodes their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.records.build import build_batch
from ottla.records.errors import CorruptRecords
from ottla.records.header import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.record import Record

__all__ = [
    "ControlType",
    "EndTransactionMarker",
    "build_control_batch",
    "build_end_transaction_marker",
    "control_key",
    "read_control_type",
    "read_end_transaction_marker",
]

_KEY = Struct(">hh")
_MARKER = Struct(">hi")


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def build_control_batch(
    records: Iterable[tuple[ControlType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytearray:
    """Builds a batch of control records from types and values. Control batches have no sequence numbers."""
    return build_batch(
        [Record(key=control_key(kind), value=value, timestamp=timestamp_ms) for kind, value in records],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
        is_control=True,
    )


def build_end_transaction_marker(
    *,
    is_commit: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Builds the marker batch that ends a producer's transaction in a partition (KIP-98)."""
    return build_control_batch(
        [(ControlType.COMMIT if is_commit else ControlType.ABORT, _MARKER.pack(0, coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


def control_key(kind: ControlType) -> bytes:
    return _KEY.pack(0, kind)


def read_control_type(key: bytes | bytearray | memoryview | None) -> ControlType:
    """The type in a control record's key; UNKNOWN for types that this release does not know."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecords("The key of a control record is too short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecords(f"The key of a control record has the invalid version {version}")
    try:
        return ControlType(kind)
    except ValueError:
        return ControlType.UNKNOWN


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The content of an abort or commit marker; None for control records of other types."""
    kind = read_control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER.size:
        raise CorruptRecords("The value of a transaction marker is too short")
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    if version < 0:
        raise CorruptRecords(f"A transaction marker has the invalid version {version}")
    return EndTransactionMarker(kind == ControlType.COMMIT, coordinator_epoch)
