"""What wakes a shard when its partition moves on: it hangs there like a produce request that waits for followers."""

from __future__ import annotations

from collections.abc import Callable

from ottla.replica.parked import Parked, Parking

__all__ = ["CommitWatch"]


class CommitWatch(Parked[None]):
    """Hangs on the partition while something waits for its high watermark."""

    __slots__ = ("_on_progress",)

    def __init__(self, on_progress: Callable[[], object], parking: Parking) -> None:
        super().__init__(parking)
        self._on_progress = on_progress

    def retry(self) -> None:
        self._on_progress()

    def attempt(self, step: Callable[[], None]) -> None:
        step()
