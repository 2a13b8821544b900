"""A limit on open files.

A node may have tens of thousands of segments, and most are not used between two retention checks. So a segment or index
opens its file on first use and registers here. If more than `limit` files are open, owners that have not used their
file since the last round release it (the second-chance algorithm: one flag per owner, set on use, and no bookkeeping on
the hot path). A release only drops the reference: a `FileRegion` that is still being sent keeps its file open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.model.ports import File, Files
from ottla.storage.errors import is_shortage

__all__ = ["FileOwner", "OpenFiles"]

# Up to 2^47 microseconds, which is enough for any flush.
FLUSH_PLACES = 48


class FileOwner(Protocol):
    recently_used: bool

    def release(self) -> bool:
        """Releases the file; returns False if the owner needs it."""


class OpenFiles:
    """Opens files for their owners, and releases files that were not used lately."""

    __slots__ = ("_limit", "_owners", "files", "flush_seconds", "flush_times", "on_closed")

    def __init__(self, files: Files, *, limit: int) -> None:
        assert limit > 0
        self.files = files
        self._limit = limit
        self._owners: dict[FileOwner, None] = {}
        # Durations of the flushes of all logs: a count for each power of two of microseconds.
        self.flush_seconds = 0.0
        self.flush_times = [0] * FLUSH_PLACES
        self.on_closed: Callable[[int], None] | None = None
        """Called with the size of a closed segment that was flushed."""

    def count_flush(self, seconds: float) -> None:
        self.flush_seconds += seconds
        self.flush_times[int(seconds * 1e6).bit_length()] += 1

    def count_closed(self, size: int) -> None:
        if self.on_closed is not None:
            self.on_closed(size)

    def __len__(self) -> int:
        return len(self._owners)

    def open(self, owner: FileOwner, path: str, *, create: bool = True) -> File:
        try:
            file = self.files.open(path, create=create)
        except OSError as error:
            if not is_shortage(error):
                raise
            # Other parts of the process use the descriptors: half of the open files are released.
            self._take_back(spare=owner, down_to=len(self._owners) // 2)
            file = self.files.open(path, create=create)
        owner.recently_used = True
        self._owners[owner] = None
        if len(self._owners) > self._limit:
            self._take_back(spare=owner, down_to=self._limit)
        return file

    def forget(self, owner: FileOwner) -> None:
        """The owner has dropped its file."""
        self._owners.pop(owner, None)

    def _take_back(self, *, spare: FileOwner, down_to: int) -> None:
        # Two rounds are enough: the first clears every flag, the second releases the files.
        for _ in range(2 * len(self._owners)):
            owner = next(iter(self._owners))
            del self._owners[owner]
            if owner is spare or owner.recently_used or not owner.release():
                owner.recently_used = False
                self._owners[owner] = None
            if len(self._owners) <= down_to:
                return
