"""The three indexes of a segment. They are made when one of them is first used: most segments are idle."""

from __future__ import annotations

from collections.abc import Callable

from ottla.model.ports import Files
from ottla.storage.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_files import OpenFiles
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex

__all__ = ["SegmentIndexes"]


class SegmentIndexes:
    """`path_of` gives the path of an index by its suffix."""

    __slots__ = ("offsets", "times", "transactions")

    def __init__(self, path_of: Callable[[str], str], base_offset: int, pool: OpenFiles, *, is_new: bool) -> None:
        self.offsets = OffsetIndex(path_of(INDEX_SUFFIX), base_offset, pool, is_new=is_new)
        self.times = TimeIndex(path_of(TIME_INDEX_SUFFIX), base_offset, pool, is_new=is_new)
        self.transactions = TransactionIndex(path_of(TRANSACTION_INDEX_SUFFIX), pool)

    def relocate(self, path_of: Callable[[str], str]) -> None:
        """The files were renamed, or are about to be."""
        self.offsets.path = path_of(INDEX_SUFFIX)
        self.times.path = path_of(TIME_INDEX_SUFFIX)
        self.transactions.path = path_of(TRANSACTION_INDEX_SUFFIX)

    def has_entries_on_disk(self, files: Files) -> bool:
        paths = (self.offsets.path, self.times.path)
        return any(files.exists(path) and files.size_of(path) > 0 for path in paths)

    def write_pending(self) -> None:
        self.offsets.write_pending()
        self.times.write_pending()

    def close(self) -> None:
        self.offsets.close()
        self.times.close()

    def discard(self) -> None:
        """Drops the files without writing pending entries."""
        self.offsets.discard()
        self.times.discard()

    def use_pool(self, pool: OpenFiles) -> None:
        """Closes the files and moves the indexes to another pool of open files."""
        self.offsets.use_pool(pool)
        self.times.use_pool(pool)
        self.transactions.use_pool(pool)
