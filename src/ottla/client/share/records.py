"""Acquired records of a fetched partition: decoding, gaps, and records that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ottla.client.consumer.decode import ConsumedRecord, OpenedPayload, decode_batch
from ottla.client.consumer.deserializing import Deserializing
from ottla.client.share.acknowledgements import GAP, Acknowledge
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import Batch, iterate_batches, verify_checksum

__all__ = ["AcquiredRange", "AcquiredRecords", "SharedRecord", "Taken"]


class SharedRecord(NamedTuple):
    """A record that this consumer has acquired."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    # 0: create time, of the producer. 1: log append time, of the broker.
    timestamp_type: int
    # Bytes or None, or the object that a deserializer makes of them.
    key: Any
    value: Any
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int
    # 1 for the first delivery.
    delivery_count: int


class AcquiredRange(NamedTuple):
    first: int
    last: int
    delivery_count: int


class Taken(NamedTuple):
    """The next records, and decisions that the application does not make: gaps, and records that cannot be read."""

    records: list[SharedRecord]
    decided: dict[int, int]
    # Raised to the application when there are no records before it.
    error: Exception | None = None


class AcquiredRecords:
    """The acquired records of one partition in a response. Records are decoded when they are taken."""

    def __init__(
        self,
        partition: TopicPartition,
        node_id: int,
        acquired: Sequence[AcquiredRange],
        content: memoryview,
        *,
        check_crcs: bool,
    ) -> None:
        self.partition = partition
        # The broker that has the share session of these records.
        self.node_id = node_id
        # Acquired offsets that are not taken yet, with the number of deliveries.
        self._counts = {
            offset: acquired_range.delivery_count
            for acquired_range in acquired
            for offset in range(acquired_range.first, acquired_range.last + 1)
        }
        self._batches: Iterator[Batch] = iter(list(iterate_batches(content)) if len(content) else ())
        self._check_crcs = check_crcs
        self._opened = OpenedPayload()
        # Decoded records of the current batch, the next one last.
        self._decoded: list[ConsumedRecord] = []

    @property
    def offsets(self) -> list[int]:
        """The acquired offsets that are not taken yet."""
        return list(self._counts)

    def take(self, limit: int, deserializing: Deserializing) -> Taken:
        """The next records, at most `limit`. An error ends them."""
        records: list[SharedRecord] = []
        while len(records) < limit:
            if not self._decoded:
                try:
                    if not self._open_next():
                        # The rest of the acquired offsets has no records.
                        gaps = dict.fromkeys(self._counts, GAP)
                        self._counts.clear()
                        return Taken(records, gaps)
                except _Damaged as damaged:
                    lost = [offset for offset in self._counts if damaged.first <= offset <= damaged.last]
                    return Taken(records, self._decide(lost, Acknowledge.REJECT), damaged.cause)
                continue
            record = self._decoded.pop()
            try:
                (read,) = deserializing.apply([record]) if deserializing else (record,)
            except Exception as error:  # noqa: BLE001 (the application gets it)
                return Taken(records, self._decide([record.offset], Acknowledge.RELEASE), error)
            records.append(SharedRecord(*read, self._counts.pop(record.offset)))
        return Taken(records, {})

    def _decide(self, offsets: list[int], kind: Acknowledge) -> dict[int, int]:
        for offset in offsets:
            del self._counts[offset]
        return dict.fromkeys(offsets, int(kind))

    def _open_next(self) -> bool:
        """Decodes the next batch; returns False at the end."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        header = batch.header
        if header.is_control or not self._counts:
            return True
        try:
            if self._check_crcs and not verify_checksum(batch.view, header):
                raise CorruptRecords(f"{self.partition}: the batch at offset {header.base_offset} has a wrong checksum")
            decoded = decode_batch(self.partition, header, batch.view, opened=self._opened)
        except CorruptRecords as error:
            raise _Damaged(header.base_offset, header.next_offset - 1, error) from error
        self._decoded = [record for record in reversed(decoded) if record.offset in self._counts]
        return True


class _Damaged(Exception):
    """A batch whose records cannot be decoded."""

    def __init__(self, first: int, last: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.first = first
        self.last = last
        self.cause = cause
