"""A busy leader answers its followers a moment later, with more.

Every answer to a follower costs both brokers about the same, whatever is in it. A follower that finds much when it asks
has a busy leader, which is about to have more: answered at once it comes back at once, and finds a little each time. So
its fetch is *gathering*: the leader waits for a moment, or until there is enough, and answers then. Under load this
saves two rounds of five, and with them a fifth of the CPU time on all sides.

Nobody is made to wait for nothing:
- A follower that has to wait for the next record gets it at once, as the producer behind it may be waiting for the
  answer. Only where much was found a short while ago, and much has come again, there is a moment for it as well.
- A follower that is behind is not kept. It is held up by what it is given, and not by what is still to come.
- Consumers are not kept: they say themselves what they want to wait for (`fetch.min.bytes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.model.ports import Clock
    from ottla.replica.fetch_sessions import FetchedPartition, FetchSession

__all__ = ["BUSY_MS", "GATHERED_BYTES", "GATHERED_BYTES_MIN", "GATHERING_MS", "Gathering"]

# What a follower has to find for its leader to be busy, and what is enough to answer before the moment is over.
GATHERED_BYTES_MIN = 16 * 1024
GATHERED_BYTES = 1024 * 1024
# How long the moment is, and for how long a leader is taken to be busy after a follower has found much.
GATHERING_MS = 3
BUSY_MS = 10


class Gathering:
    """Whether one fetch of a follower is answered a moment later. What it finds counts for its session's next ones."""

    __slots__ = ("_clock", "_session", "has_begun")

    def __init__(self, session: FetchSession | None, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        # From then on the end of the fetch's waiting is no time-out: it has something to tell.
        self.has_begun = False

    def begins_on_arrival(self, found: list[FetchedPartition], size: int) -> bool:
        """Whether the follower is to wait a moment with what it has found when it asked."""
        if not _is_much(found, size):
            return False
        if self._session is not None:
            self._session.on_busy(self._monotonic_ms())
        self.has_begun = True
        return True

    def begins_after_waiting(self, found: list[FetchedPartition], size: int, *, max_wait_ms: int) -> bool:
        """Whether a follower that has waited for something to come is to wait a moment longer."""
        session = self._session
        if (
            session is None
            # It has gathered already, or did not want to wait for longer than that anyway.
            or max_wait_ms <= GATHERING_MS
            or self._monotonic_ms() - session.busy_ms > BUSY_MS
            or not _is_much(found, size)
        ):
            return False
        self.has_begun = True
        return True

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _is_much(found: list[FetchedPartition], size: int) -> bool:
    """Whether the leader is busy, and the follower keeps up with it."""
    return size >= GATHERED_BYTES_MIN and not any(map(_is_full, found))


def _is_full(found: FetchedPartition) -> bool:
    """Whether the partition may have had more to give than it was asked for: its reader is behind."""
    entry, data = found
    return data.records is not None and 2 * len(data.records) > entry.max_bytes
