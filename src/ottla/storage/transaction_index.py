"""The index of aborted transactions (KIP-98): 34 bytes each, in the order of their abort markers.

A read-committed fetch tells the consumer whose records to skip. An entry is in the index of the segment with the
marker, and contains the last stable offset at that time, where a search may end: no later entry has records below it.
The file exists only after the first abort.

The marker is in the log already when its entry is written. If there is no room for the entry, it is held in memory, and
every search finds it there. A flush writes it, and fails if it cannot. So the recovery point stays below the marker,
and recovery after a crash reads the marker and rebuilds the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.model.ports import File
from ottla.storage.errors import is_temporary
from ottla.storage.open_files import OpenFiles
from ottla.storage.page_cache import read_bytes

__all__ = ["AbortedTransaction", "TransactionIndex"]

_ENTRY = Struct(">hqqqq")
_VERSION = 0
_ENTRIES_PER_READ = 64


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of a segment. Entries are few, so they are read on demand.

    Emptiness is cached, because most indexes are empty and every read-committed fetch uses them.
    """

    __slots__ = ("_is_empty", "_pool", "path", "unwritten")

    def __init__(self, path: str, pool: OpenFiles) -> None:
        self.path = path
        self._pool = pool
        self._is_empty = False
        self.unwritten: tuple[AbortedTransaction, ...] = ()
        """The last entries, which are not in the file."""

    def append(self, transaction: AbortedTransaction) -> None:
        """Raises OSError."""
        self._is_empty = False
        self.unwritten += (transaction,)
        self.write_late()

    def append_or_hold(self, transaction: AbortedTransaction) -> None:
        """The marker is in the log: a full disk or a lack of descriptors is no failure."""
        try:
            self.append(transaction)
        except OSError as error:
            if not is_temporary(error):
                raise

    def write_late(self) -> None:
        """Writes entries that are not in the file. Raises OSError with nothing changed."""
        if self.unwritten:
            file = self._pool.files.open(self.path)
            incomplete = file.size % _ENTRY.size
            if incomplete:
                file.truncate(file.size - incomplete)
            file.append(b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in self.unwritten))
            self.unwritten = ()

    def use_pool(self, pool: OpenFiles) -> None:
        self._pool = pool
        self._is_empty = False

    def entries_from(self, offset: int, *, may_wait: bool = True) -> Iterator[AbortedTransaction]:
        """Transactions with a marker at or above the offset, in the order of their markers.

        Raises NotCached if entries have to be read from the disk, unless it `may_wait`.
        """
        if self._is_empty:
            return
        if self._pool.files.exists(self.path):
            yield from self._stored_from(offset, may_wait=may_wait)
        elif not self.unwritten:
            self._is_empty = True
        for transaction in self.unwritten:
            if transaction.last_offset >= offset:
                yield transaction

    def _stored_from(self, offset: int, *, may_wait: bool) -> Iterator[AbortedTransaction]:
        file = self._pool.files.open(self.path, create=False)
        count = file.size // _ENTRY.size
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if _ENTRY.unpack(read_bytes(file, middle * _ENTRY.size, _ENTRY.size, may_wait=may_wait))[3] < offset:
                low = middle + 1
            else:
                high = middle
        while low < count:
            length = min(count - low, _ENTRIES_PER_READ) * _ENTRY.size
            data = read_bytes(file, low * _ENTRY.size, length, may_wait=may_wait)
            for fields in _ENTRY.iter_unpack(data):
                yield AbortedTransaction(*fields[1:])
            low += _ENTRIES_PER_READ

    def syncable_files(self) -> list[File]:
        """Writes held entries. Returns the file to sync, if it exists. Raises OSError."""
        self.write_late()
        return self.open_files()

    def open_files(self) -> list[File]:
        """The file, if it exists."""
        if self._is_empty or not self._pool.files.exists(self.path):
            return []
        return [self._pool.files.open(self.path, create=False)]

    def entries(self) -> list[AbortedTransaction]:
        """The entries in the file."""
        if not self._pool.files.exists(self.path):
            return []
        data = self._pool.files.read_bytes(self.path)
        whole = len(data) - len(data) % _ENTRY.size
        return [AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(data[:whole])]

    def looks_whole(self, *, base_offset: int) -> bool:
        """True if the file has whole entries of a known version that end in this segment."""
        if not self._pool.files.exists(self.path):
            return True
        data = self._pool.files.read_bytes(self.path)
        if len(data) % _ENTRY.size:
            return False
        return all(
            version == _VERSION and last_offset >= base_offset and first_offset <= last_offset
            for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(data)
        )

    def truncate_to(self, offset: int) -> None:
        """Removes transactions with a marker at or above `offset`, and an incomplete entry."""
        self.unwritten = tuple(entry for entry in self.unwritten if entry.last_offset < offset)
        if not self._pool.files.exists(self.path):
            return
        kept = sum(entry.last_offset < offset for entry in self.entries())
        file = self._pool.files.open(self.path)
        if file.size != kept * _ENTRY.size:
            file.truncate(kept * _ENTRY.size)

    def reset(self) -> None:
        self.unwritten = ()
        if self._pool.files.exists(self.path):
            self._pool.files.open(self.path).truncate(0)
