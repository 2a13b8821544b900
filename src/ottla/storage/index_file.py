"""The common part of offset and time index: fixed-size entries, appended in order, searched by bisection.

Entries are not held as Python objects. New entries are buffered and written a page at a time. A crash loses the buffer,
so recovery rebuilds the indexes of everything after the recovery point. A search reads single entries until one page is
left, and keeps that page, because readers move forward. An index has no checksum: an entry is only a hint, which
`segment` compares with the batch at its position.

Apache Kafka preallocates index files and trims them when the segment is closed. After a crash of Kafka an index ends
with zeros, which are not entries.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import Any, ClassVar

from ottla.model.ports import File
from ottla.storage.errors import is_temporary
from ottla.storage.open_files import OpenFiles
from ottla.storage.page_cache import read_bytes

__all__ = ["IndexFile"]

_PAGE_BYTES = 4096
_PENDING_BYTES_MAX = 1024


class IndexFile:
    """The entries of one index, oldest first. The file is opened on first use."""

    __slots__ = (
        "_file",
        "_page",
        "_page_first",
        "_pending",
        "_pool",
        "_stored",
        "base_offset",
        "path",
        "recently_used",
    )

    ENTRY: ClassVar[Struct]

    def __init__(self, path: str, base_offset: int, pool: OpenFiles, *, is_new: bool = False) -> None:
        self.path = path
        self.base_offset = base_offset
        self.recently_used = False
        self._pool = pool
        self._file: File | None = None
        self._page: bytes | bytearray = b""
        self._page_first = 0
        self._pending = bytearray()
        # -1 if not read yet.
        self._stored = 0 if is_new else -1

    @property
    def entry_count(self) -> int:
        return self.count_entries()

    def count_entries(self, *, may_wait: bool = True) -> int:
        """Raises NotCached if entries have to be read from the disk, unless it `may_wait`."""
        if self._stored < 0:
            self._opened(may_wait=may_wait)
        return self._stored + len(self._pending) // self.ENTRY.size

    @property
    def bytes_used(self) -> int:
        """The size that `segment.index.bytes` limits."""
        stored = self._stored
        return (stored if stored >= 0 else self.entry_count) * self.ENTRY.size + len(self._pending)

    def entry(self, number: int, *, may_wait: bool = True) -> tuple[Any, ...]:
        """The entry as stored, with its relative offset.

        Raises NotCached if it has to be read from the disk, unless it `may_wait`.
        """
        size = self.ENTRY.size
        if self._stored < 0:
            self._opened(may_wait=may_wait)
        if number >= self._stored:
            return self.ENTRY.unpack_from(self._pending, (number - self._stored) * size)
        inside = number - self._page_first
        if inside >= 0 and (inside + 1) * size <= len(self._page):
            return self.ENTRY.unpack_from(self._page, inside * size)
        return self.ENTRY.unpack(read_bytes(self._opened(), number * size, size, may_wait=may_wait))

    def append_entry(self, *values: int) -> None:
        self._pending += self.ENTRY.pack(*values)
        if len(self._pending) >= _PENDING_BYTES_MAX:
            try:
                self.write_pending()
            except OSError as error:
                # The batch of this entry is already in the log, so a full disk or a lack of descriptors is no failure:
                # the entries stay in the buffer, which does not grow long, because the log does not grow either.
                if not is_temporary(error):
                    raise

    def write_pending(self) -> None:
        if self._pending:
            file = self._opened()
            if file.size != self._stored * self.ENTRY.size:
                file.truncate(self._stored * self.ENTRY.size)
            file.append(self._pending)
            self._stored += len(self._pending) // self.ENTRY.size
            self._pending = bytearray()

    def search(self, field: int, target: int, *, may_wait: bool = True) -> int:
        """The number of the last entry whose field is at most `target`, or -1. Both fields increase.

        Raises NotCached if entries have to be read from the disk, unless it `may_wait`. The entry that was found can
        be read without the disk.
        """
        if self._stored < 0:
            self._opened(may_wait=may_wait)
        size = self.ENTRY.size
        if self._pending and self.ENTRY.unpack_from(self._pending)[field] <= target:
            return self._stored + self._bisect(self._pending, field, target) - 1
        if self._stored == 0:
            return -1
        if self._page and self.ENTRY.unpack_from(self._page)[field] <= target:
            count = len(self._page) // size
            is_last_page = self._page_first + count == self._stored
            if is_last_page or target < self.ENTRY.unpack_from(self._page, (count - 1) * size)[field]:
                return self._page_first + self._bisect(self._page, field, target) - 1
        low, high = 0, self._stored
        file = self._opened()
        self.recently_used = True
        while (high - low) * size > _PAGE_BYTES:
            middle = (low + high) // 2
            if self.ENTRY.unpack(read_bytes(file, middle * size, size, may_wait=may_wait))[field] <= target:
                low = middle
            else:
                high = middle
        self._page = read_bytes(file, low * size, (high - low) * size, may_wait=may_wait)
        self._page_first = low
        return low + self._bisect(self._page, field, target) - 1

    def truncate_entries(self, count: int) -> None:
        """Keeps the first `count` entries."""
        size = self.ENTRY.size
        if count >= self.entry_count:
            return
        if count >= self._stored:
            del self._pending[(count - self._stored) * size :]
            return
        self._pending.clear()
        self._opened().truncate(count * size)
        self._stored = count
        self._page = b""
        self._page_first = 0

    def reset(self) -> None:
        """Removes all entries."""
        # A file is created with its first entries, because creating it is the main cost of a short log.
        if self._file is not None or self._pool.files.exists(self.path):
            self._opened().truncate(0)
        self._stored = 0
        self._pending.clear()
        self._page = b""
        self._page_first = 0

    def looks_whole(self) -> bool:
        """True if the file can be an index: a whole number of entries, the last entry larger than the first."""
        file = self._opened()
        size = self.ENTRY.size
        if file.size % size or file.size < self._stored * size:
            return False
        count = self.entry_count
        return count < 2 or all(first <= last for first, last in zip(self.entry(0), self.entry(count - 1), strict=True))

    def sync_file(self) -> File:
        """Writes buffered entries and returns the file for a worker to sync."""
        self.write_pending()
        return self._opened()

    def release(self) -> bool:
        try:
            self.write_pending()
        except OSError:
            # The file is released for another file, which may be in a healthy directory. The error comes back when this
            # index is written for its own log.
            return False
        self._drop()
        return True

    def close(self) -> None:
        if self._file is not None or self._pending:
            self.write_pending()
            self._drop()
            self._pool.forget(self)

    def discard(self) -> None:
        """Drops the file and buffered entries, because the file is about to be removed."""
        self._pending.clear()
        self._file = None
        self._pool.forget(self)

    def use_pool(self, pool: OpenFiles) -> None:
        try:
            self.close()
        except OSError as error:
            # As in `append_entry`: the entries stay in the buffer.
            if not is_temporary(error):
                raise
            self._drop()
            self._pool.forget(self)
        self._pool = pool

    def _drop(self) -> None:
        self._file = None
        self._page = b""
        self._page_first = 0

    def _opened(self, *, may_wait: bool = True) -> File:
        file = self._file
        if file is None:
            file = self._file = self._pool.open(self, self.path)
        if self._stored < 0:
            self._stored = self._count_stored(file, may_wait=may_wait)
        return file

    def _count_stored(self, file: File, *, may_wait: bool) -> int:
        """The number of entries in the file, without preallocated zeros."""
        size = self.ENTRY.size
        count = file.size // size
        zeros = bytes(size)
        if count == 0 or read_bytes(file, (count - 1) * size, size, may_wait=may_wait) != zeros:
            return count
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if read_bytes(file, middle * size, size, may_wait=may_wait) == zeros:
                high = middle
            else:
                low = middle + 1
        return low

    def _bisect(self, block: bytes | bytearray, field: int, target: int) -> int:
        unpack_from, size = self.ENTRY.unpack_from, self.ENTRY.size
        return bisect_right(
            range(len(block) // size), target, key=lambda number: unpack_from(block, number * size)[field]
        )
