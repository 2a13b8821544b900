"""Filters batches of aborted transactions, which a Fetch response contains together with a list of them."""

from __future__ import annotations

from collections import deque

from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import Batch, iterate_records
from ottla.wire.messages.fetch import PartitionData

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """The aborted transactions of one Fetch response (KIP-98)."""

    __slots__ = ("_open", "_waiting")

    def __init__(self, data: PartitionData) -> None:
        listed = [
            (transaction.first_offset, transaction.producer_id) for transaction in data.aborted_transactions or ()
        ]
        self._waiting = deque(sorted(listed))
        self._open: set[int] = set()

    def covers(self, batch: Batch) -> bool:
        """True if the batch of records belongs to an aborted transaction."""
        header = batch.header
        self._advance(header.last_offset)
        return header.is_transactional and header.producer_id in self._open

    def on_control(self, batch: Batch) -> None:
        # An abort marker ends the aborted transaction; the next batch of the producer belongs to a new one.
        self._advance(batch.header.last_offset)
        for record in iterate_records(batch):
            if read_control_type(record.key) == ControlType.ABORT:
                self._open.discard(batch.header.producer_id)

    def _advance(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            self._open.add(self._waiting.popleft()[1])
