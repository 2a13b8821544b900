"""Batches that a compaction removes because of transactions.

Batches of aborted transactions are removed at once. A marker stays as long as a batch of its transaction exists. After
that it gets a delete horizon like a tombstone, so that a consumer that has read some of the batches still reads the end
of the transaction.

`CleanedTransactions` gets every batch of the log in order, including the clean part, and the aborted transactions from
the transaction indexes.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from ottla.records.control import ControlType
from ottla.records.header import BatchHeader
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["CleanedTransactions"]


class CleanedTransactions:
    """`kept_aborted` are the aborted transactions that still have batches, for the index of the new segment."""

    __slots__ = ("_aborted", "_added", "_ongoing_aborted", "_ongoing_committed", "kept_aborted")

    def __init__(self) -> None:
        self._aborted: list[tuple[int, AbortedTransaction]] = []
        self._added: set[AbortedTransaction] = set()
        self._ongoing_aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._ongoing_committed: set[int] = set()
        self.kept_aborted: list[AbortedTransaction] = []

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Adds aborted transactions before their batches are read. Adding one twice has no effect."""
        for transaction in transactions:
            if transaction not in self._added:
                self._added.add(transaction)
                heappush(self._aborted, (transaction.first_offset, transaction))

    def on_batch(self, header: BatchHeader) -> bool:
        """A data batch was read. Returns whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._ongoing_aborted.get(header.producer_id)
        if aborted is None:
            self._ongoing_committed.add(header.producer_id)
            return False
        self._ongoing_aborted[header.producer_id] = (aborted[0], True)
        return True

    def on_marker(self, header: BatchHeader, kind: ControlType | None) -> bool:
        """A control batch was read; `kind` is None for an empty one. Returns whether it is not needed any more."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind == ControlType.ABORT:
            transaction, has_data = self._ongoing_aborted.pop(header.producer_id, (None, False))
            if transaction is not None and has_data:
                self.kept_aborted.append(transaction)
                return False
            return True
        if kind == ControlType.COMMIT:
            was_ongoing = header.producer_id in self._ongoing_committed
            self._ongoing_committed.discard(header.producer_id)
            return not was_ongoing
        return False

    def take_kept_aborted(self) -> list[AbortedTransaction]:
        taken, self.kept_aborted = self.kept_aborted, []
        return taken

    def _begin_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            _, transaction = heappop(self._aborted)
            self._ongoing_aborted.setdefault(transaction.producer_id, (transaction, False))
