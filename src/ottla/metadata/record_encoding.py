"""Encodes and decodes records of which most are alike.

Thousands of partitions are created or changed in one decision, and a snapshot has a record of every partition. Most of
these records differ only in the number of the partition, which is the first field of both record types. Their other
bytes are equal, and are encoded or decoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from ottla.metadata.versions import encode_for
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import PartitionChangeRecord, PartitionRecord
from ottla.wire.metadata_codec import decode_record

__all__ = ["ALIKE_MAX", "PartitionValues", "RecordDecoder", "encode_all"]

_PARTITION_ID = Struct(">i")
# Frame version, record type, record version: one byte each.
_HEADER_BYTES = 3
_REST = _HEADER_BYTES + _PARTITION_ID.size
_PARTITION_TYPES = (PartitionRecord.API_KEY, PartitionChangeRecord.API_KEY)
# A topic of thousands of partitions has few distinct sets of replicas, times few distinct epochs.
ALIKE_MAX = 1000


class PartitionValues:
    """The values of records that equal an encoded one except for the number of the partition."""

    __slots__ = ("_header", "_tail")

    def __init__(self, value: bytes) -> None:
        self._header = value[:_HEADER_BYTES]
        self._tail = value[_REST:]

    def of(self, partition_id: int) -> bytes:
        return b"".join((self._header, _PARTITION_ID.pack(partition_id), self._tail))


class RecordDecoder:
    """Decodes the values of one log or snapshot.

    A partition's record that is like an earlier one shares its ids and lists, which must not be changed.
    """

    __slots__ = ("_templates",)

    def __init__(self) -> None:
        # Records by the bytes around the partition's number.
        self._templates: dict[bytes, PartitionRecord | PartitionChangeRecord] = {}

    def decode(self, value: memoryview) -> Message:
        """`decode_record` of the value; raises MalformedMessage."""
        if len(value) < _REST or value[1] not in _PARTITION_TYPES:
            return decode_record(value)
        around = b"".join((value[:_HEADER_BYTES], value[_REST:]))
        template = self._templates.get(around)
        if template is not None:
            return _copy(template, _PARTITION_ID.unpack_from(value, _HEADER_BYTES)[0])
        record = decode_record(value)
        if isinstance(record, (PartitionRecord, PartitionChangeRecord)):
            if len(self._templates) >= ALIKE_MAX:
                self._templates.clear()
            self._templates[around] = record
        return record


def encode_all(records: Sequence[Any], metadata_version: int) -> list[bytes]:
    """`encode_for` of every record."""
    values: list[bytes] = []
    values_by_likeness: dict[tuple[Any, ...], PartitionValues] = {}
    for record in records:
        key = _likeness(record)
        if key is None:
            values.append(encode_for(record, metadata_version))
            continue
        alike = values_by_likeness.get(key)
        if alike is None:
            value = encode_for(record, metadata_version)
            values_by_likeness[key] = PartitionValues(value)
        else:
            value = alike.of(record.partition_id)
        values.append(value)
    return values


def _copy(
    record: PartitionRecord | PartitionChangeRecord, partition_id: int
) -> PartitionRecord | PartitionChangeRecord:
    """The same record of another partition."""
    if isinstance(record, PartitionChangeRecord):
        return PartitionChangeRecord(
            partition_id=partition_id,
            topic_id=record.topic_id,
            isr=record.isr,
            leader=record.leader,
            replicas=record.replicas,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            leader_recovery_state=record.leader_recovery_state,
            directories=record.directories,
            eligible_leader_replicas=record.eligible_leader_replicas,
            last_known_elr=record.last_known_elr,
        )
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=record.topic_id,
        replicas=record.replicas,
        isr=record.isr,
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=record.directories,
        eligible_leader_replicas=record.eligible_leader_replicas,
        last_known_elr=record.last_known_elr,
    )


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
