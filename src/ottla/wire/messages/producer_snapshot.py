# Written by tools/generate_messages.py from definitions/producer_snapshot.txt: change the definition, not this file.
"""Producer snapshot.

The .snapshot file of a segment: the producer state at its base offset.
A two-byte version precedes it. The checksum covers the bytes that follow it.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Structure

__all__ = [
    "ProducerEntry",
    "ProducerSnapshot",
]


class ProducerEntry(Structure):
    """An element of `ProducerSnapshot.producer_entries`."""

    __slots__ = (
        "producer_id",
        "epoch",
        "last_sequence",
        "last_offset",
        "offset_delta",
        "timestamp",
        "coordinator_epoch",
        "current_txn_first_offset",
    )

    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("epoch", "int16", (0, 32767), None, None, 0, False),
        ("last_sequence", "int32", (0, 32767), None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, 0, False),
        ("offset_delta", "int32", (0, 32767), None, None, 0, False),
        ("timestamp", "int64", (0, 32767), None, None, 0, False),
        ("coordinator_epoch", "int32", (0, 32767), None, None, 0, False),
        ("current_txn_first_offset", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        epoch: int = 0,
        last_sequence: int = 0,
        last_offset: int = 0,
        offset_delta: int = 0,
        timestamp: int = 0,
        coordinator_epoch: int = 0,
        current_txn_first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset


class ProducerSnapshot(Message):
    """Data, version 1."""

    __slots__ = ("crc", "producer_entries")

    VERSIONS = (1, 1)
    FIELDS = (
        ("crc", "uint32", (0, 32767), None, None, 0, False),
        ("producer_entries", "[ProducerEntry]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        crc: int = 0,
        producer_entries: list[ProducerEntry] = EMPTY,
    ) -> None:
        self.crc = crc
        self.producer_entries = [] if producer_entries is EMPTY else producer_entries
