"""A bound on open files.

A node may have tens of thousands of segments, and most are never touched between one retention check and the next.
So a segment or index opens its file on first use and registers here; when more than `limit` are open, those not used
since the last round are asked to let go (the second-chance algorithm: one flag per owner, set on use, and no
bookkeeping on the hot path). Letting go only drops the reference: a `FileRegion` that is still being sent keeps its
file, which closes when the region is done.
"""

from __future__ import annotations

from typing import Protocol

from ottla.model.ports import File, Files
from ottla.storage.errors import is_shortage

__all__ = ["FileOwner", "OpenFiles"]

# Up to 2^47 microseconds: enough for any flush.
FLUSH_PLACES = 48


class FileOwner(Protocol):
    recently_used: bool

    def release(self) -> bool:
        """Lets go of the file, or says that it cannot be spared."""


class OpenFiles:
    """Opens files for their owners and takes back those that were not used of late."""

    __slots__ = ("_limit", "_owners", "files", "flush_seconds", "flush_times")

    def __init__(self, files: Files, *, limit: int) -> None:
        assert limit > 0
        self.files = files
        self._limit = limit
        self._owners: dict[FileOwner, None] = {}
        # How long flushes of all logs have taken: a count for each power of two of microseconds.
        self.flush_seconds = 0.0
        self.flush_times = [0] * FLUSH_PLACES

    def count_flush(self, seconds: float) -> None:
        self.flush_seconds += seconds
        self.flush_times[int(seconds * 1e6).bit_length()] += 1

    def __len__(self) -> int:
        return len(self._owners)

    def open(self, owner: FileOwner, path: str, *, create: bool = True) -> File:
        try:
            file = self.files.open(path, create=create)
        except OSError as error:
            if not is_shortage(error):
                raise
            # Others of the process have taken the descriptors: make do with half of what we hold.
            self._take_back(spare=owner, down_to=len(self._owners) // 2)
            file = self.files.open(path, create=create)
        owner.recently_used = True
        self._owners[owner] = None
        if len(self._owners) > self._limit:
            self._take_back(spare=owner, down_to=self._limit)
        return file

    def forget(self, owner: FileOwner) -> None:
        """The owner has dropped its file by itself."""
        self._owners.pop(owner, None)

    def _take_back(self, *, spare: FileOwner, down_to: int) -> None:
        # Twice round is enough: the first clears every flag, the second finds whoever can be spared.
        for _ in range(2 * len(self._owners)):
            owner = next(iter(self._owners))
            del self._owners[owner]
            if owner is spare or owner.recently_used or not owner.release():
                owner.recently_used = False
                self._owners[owner] = None
            if len(self._owners) <= down_to:
                return
