"""Encodes the records of a decision.

Thousands of partitions are created or changed in one decision, and most of their records differ in nothing but the
number of the partition, which is the first field of both record types. Such records share the rest of their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from ottla.metadata.versions import encode_for
from ottla.wire.messages.metadata_records import PartitionChangeRecord, PartitionRecord

__all__ = ["encode_all"]

_PARTITION_ID = Struct(">i")
# Frame version, record type, record version: one byte each.
_HEADER_BYTES = 3
_REST = _HEADER_BYTES + _PARTITION_ID.size


def encode_all(records: Sequence[Any], metadata_version: int) -> list[bytes]:
    """`encode_for` of every record."""
    values: list[bytes] = []
    known: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}
    pack = _PARTITION_ID.pack
    for record in records:
        key = _likeness(record)
        if key is None:
            values.append(encode_for(record, metadata_version))
            continue
        around = known.get(key)
        if around is None:
            value = encode_for(record, metadata_version)
            known[key] = value[:_HEADER_BYTES], value[_REST:]
        else:
            value = b"".join((around[0], pack(record.partition_id), around[1]))
        values.append(value)
    return values


def _likeness(record: Any) -> tuple[Any, ...] | None:
    """Equal for records that differ only in the partition's number; None for records that are not compared.

    Ids and lists are compared by identity: a decision shares them between records, and the records keep them alive.
    """
    kind = type(record)
    if kind is PartitionChangeRecord:
        epochs: tuple[int, ...] = ()
    elif kind is PartitionRecord:
        epochs = (record.leader_epoch, record.partition_epoch)
    else:
        return None
    return (
        kind,
        epochs,
        id(record.topic_id),
        record.leader,
        record.leader_recovery_state,
        id(record.isr),
        id(record.replicas),
        id(record.removing_replicas),
        id(record.adding_replicas),
        id(record.directories),
        id(record.eligible_leader_replicas),
        id(record.last_known_elr),
    )
