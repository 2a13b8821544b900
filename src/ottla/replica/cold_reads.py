"""Reads from the disk, by workers, for one fetch.

A fetch looks up the beginning and the end of a read in indexes and batch headers, which are usually in the page cache.
If they are not, the fetch waits until workers have read them, and looks up again. The next lookup may miss other bytes,
so there may be several rounds: index, first header, last header. Only this request waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.storage.page_cache import is_whole

if TYPE_CHECKING:
    from ottla.model.ports import FileRegion, Workers

__all__ = ["DISK_WAIT_MS_MAX", "REGIONS_MAX", "ROUNDS_MAX", "ColdReads"]

# The time beyond its timeout that a fetch waits for the disk. Then it is answered with the records in memory.
DISK_WAIT_MS_MAX = 5_000

# The most regions that one fetch reads at the same time.
REGIONS_MAX = 64

# With so little memory that the pages are gone before they are used, a fetch would never find all of them. After this
# many rounds it is answered with what is in memory. If that is nothing, it waits for the disk in its own thread.
ROUNDS_MAX = 32


class ColdReads:
    """The regions that one fetch is missing. `on_loaded` is called when workers have read all of them."""

    __slots__ = ("_has_failed", "_missing", "_on_loaded", "_outstanding", "_rounds", "_workers", "is_late")

    def __init__(self, workers: Workers, on_loaded: Callable[[], None]) -> None:
        self._workers = workers
        self._on_loaded = on_loaded
        self._missing: list[FileRegion] = []
        self._outstanding = 0
        self._rounds = 0
        # True if a region cannot be read. The next lookup then reads the region itself and gets the error.
        self._has_failed = False
        # True if the fetch no longer waits.
        self.is_late = False

    @property
    def _has_given_up(self) -> bool:
        """True if pages that were read have left memory too often."""
        return self._rounds >= ROUNDS_MAX

    def may_wait(self, *, is_first: bool) -> bool:
        """Whether a lookup may wait for the disk after all. `is_first`: the fetch has found no records so far."""
        return self._has_failed or (is_first and self._has_given_up)

    def add(self, region: FileRegion) -> None:
        """Adds bytes that a lookup has just missed in memory."""
        if len(self._missing) < REGIONS_MAX:
            self._missing.append(region)

    def load(self) -> bool:
        """Lets workers read what the last lookups were missing. Returns whether to wait for that."""
        missing, self._missing = self._missing, []
        if not missing or self.is_late or self._has_given_up:
            return False
        if not self._outstanding:
            self._rounds += 1
            self._outstanding = len(missing)
            for region in missing:
                self._workers.submit(is_whole, region).when_done(self._on_read)
        return True

    def _on_read(self, read: Deferred[bool]) -> None:
        if read.error is not None or not read.result():
            self._has_failed = True
        self._outstanding -= 1
        if not self._outstanding:
            self._on_loaded()
