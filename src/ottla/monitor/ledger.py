"""The outcome of every probe of one partition: acknowledged, read, lost, read twice, read out of order.

A pure machine: the caller passes the time. Probes of a partition are numbered from 0. Only probes whose outcome is open
are kept, so the memory is bounded by the time that they may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ottla.monitor.latencies import Latencies

__all__ = ["PartitionLedger", "Seen"]

# Failed sends that may have been written nevertheless, remembered for each partition.
FAILED_KEPT_MAX = 10_000


class Seen(Enum):
    """The outcome of reading a probe."""

    FIRST = auto()
    DUPLICATE = auto()
    OUT_OF_ORDER = auto()


@dataclass(slots=True)
class _OpenProbe:
    sent_at: float
    acknowledged_at: float | None = None


class PartitionLedger:
    """The probes of one partition."""

    def __init__(self) -> None:
        self.produced = 0
        self.failed = 0
        self.consumed = 0
        self.duplicated = 0
        self.reordered = 0
        # Probes that were counted as lost and were read later. `lost` does not contain them any more.
        self.late = 0
        self.produce_latency = Latencies()
        self.latency = Latencies()
        self._next = 0
        self._highest_read = -1
        # In the order of the sends.
        self._open: dict[int, _OpenProbe] = {}
        self._lost: dict[int, float] = {}
        # Sends that failed at the client. Brokers may have written them: they count neither as lost nor as duplicates.
        self._failed: dict[int, None] = {}

    @property
    def lost(self) -> int:
        return len(self._lost)

    @property
    def awaited(self) -> int:
        """Acknowledged probes that were not read yet."""
        return sum(probe.acknowledged_at is not None for probe in self._open.values())

    @property
    def unacknowledged(self) -> int:
        return len(self._open) - self.awaited

    def send(self, now: float) -> int:
        """Opens the next probe; returns its number."""
        number = self._next
        self._next += 1
        self._open[number] = _OpenProbe(now)
        return number

    def acknowledge(self, number: int, sent_at: float, now: float) -> None:
        self.produced += 1
        self.produce_latency.add((now - sent_at) * 1000)
        # A probe can be read before its acknowledgement arrives: then it is not open any more.
        probe = self._open.get(number)
        if probe is not None:
            probe.acknowledged_at = now

    def fail(self, number: int) -> None:
        self.failed += 1
        if self._open.pop(number, None) is not None:
            self._failed[number] = None
            if len(self._failed) > FAILED_KEPT_MAX:
                del self._failed[next(iter(self._failed))]

    def read(self, number: int, now: float) -> Seen:
        """A probe was read. Unknown numbers are duplicates: their probe was read before."""
        probe = self._open.pop(number, None)
        sent_at = probe.sent_at if probe is not None else self._lost.pop(number, None)
        if sent_at is None and number not in self._failed:
            self.duplicated += 1
            return Seen.DUPLICATE
        self._failed.pop(number, None)
        self.consumed += 1
        if sent_at is not None:
            self.latency.add((now - sent_at) * 1000)
            self.late += probe is None
        if number < self._highest_read:
            self.reordered += 1
            return Seen.OUT_OF_ORDER
        self._highest_read = number
        return Seen.FIRST

    def give_up(self, acknowledged_before: float) -> list[int]:
        """Counts probes as lost that were acknowledged before this time and not read since; returns their numbers."""
        given_up = [
            number
            for number, probe in self._open.items()
            if probe.acknowledged_at is not None and probe.acknowledged_at <= acknowledged_before
        ]
        for number in given_up:
            self._lost[number] = self._open.pop(number).sent_at
        return given_up

    def oldest_unacknowledged(self) -> float | None:
        """When the oldest probe without an answer was sent; None if all probes have an answer."""
        return next((probe.sent_at for probe in self._open.values() if probe.acknowledged_at is None), None)

    def oldest_unread(self) -> float | None:
        """The earliest acknowledgement of a probe that was not read; None if all acknowledged probes were read."""
        times = [probe.acknowledged_at for probe in self._open.values() if probe.acknowledged_at is not None]
        return min(times, default=None)
