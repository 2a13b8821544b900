"""Lookups whose indexes and headers may be only on the disk: workers read them, and the lookup is repeated.

A lookup runs on the thread that owns the node's state, which must not wait for a disk. When bytes are missing in the
page cache, it raises `NotCached`. A worker reads them, and the lookup begins again. It may then miss other bytes, so
there may be several rounds. The log may change between two rounds, so every round begins with its current state.

A fetch looks up many partitions at the same time, and has its own rules: see `replica/cold_reads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from ottla.model.deferred import Deferred
from ottla.storage.page_cache import NotCached, is_whole

if TYPE_CHECKING:
    from ottla.model.ports import FileRegion, Workers

__all__ = ["REPEATED_MAX", "look_up"]

T = TypeVar("T")

# With so little memory that the pages are gone before they are used, a lookup would never find all of them. When it has
# missed bytes so often that a worker had read before, it waits for the disk in its own thread.
REPEATED_MAX = 4


def look_up(workers: Workers, lookup: Callable[[bool], T]) -> Deferred[T]:
    """The result of `lookup(may_wait)`: at once if everything is in memory, otherwise after workers have read it."""
    try:
        return Deferred.resolved(lookup(False))
    except NotCached as missing:
        repeated = _Repeated(workers, lookup)
        repeated.load(missing.region)
        return repeated.outcome
    except Exception as error:  # noqa: BLE001 (the holder of the Deferred gets it)
        return Deferred.failed(error)


class _Repeated(Generic[T]):
    """A lookup that was missing bytes."""

    __slots__ = ("_has_failed", "_lookup", "_read", "_repeated", "_workers", "outcome")

    def __init__(self, workers: Workers, lookup: Callable[[bool], T]) -> None:
        self._workers = workers
        self._lookup = lookup
        # The places that workers have read, and how often such a place was missing again.
        self._read: set[tuple[str, int, int]] = set()
        self._repeated = 0
        # True if a region cannot be read. The lookup then reads the region itself and gets the error.
        self._has_failed = False
        self.outcome: Deferred[T] = Deferred()

    def load(self, region: FileRegion) -> None:
        # The place includes the length, because a read across the end of a block misses only the next block.
        place = (region.file.path, region.position, region.length)
        self._repeated += place in self._read
        self._read.add(place)
        self._workers.submit(is_whole, region).when_done(self._on_read)

    def _on_read(self, read: Deferred[bool]) -> None:
        if read.error is not None or not read.result():
            self._has_failed = True
        try:
            value = self._lookup(self._has_failed or self._repeated >= REPEATED_MAX)
        except NotCached as missing:
            self.load(missing.region)
        except Exception as error:  # noqa: BLE001 (the holder of the Deferred gets it)
            self.outcome.fail(error)
        else:
            self.outcome.resolve(value)
