"""Outages: partitions that do not accept records, or whose records cannot be read, for some seconds.

A pure machine: it compares the age of open probes with a bound, so an outage is noticed while it lasts and not when a
request times out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ottla.monitor.ledger import PartitionLedger

__all__ = ["Outage", "Outages", "Side"]

Side = Literal["produce", "consume"]


@dataclass(slots=True)
class Outage:
    partition: int
    side: Side
    began_at: float
    # None while the outage lasts.
    ended_at: float | None = None

    def seconds(self, now: float) -> float:
        return (now if self.ended_at is None else self.ended_at) - self.began_at


class Outages:
    """The outages of a run; the newest `KEPT_MAX` that are over are kept."""

    KEPT_MAX = 1_000

    def __init__(self, after_seconds: float) -> None:
        self.after_seconds = after_seconds
        self.ongoing: dict[tuple[int, Side], Outage] = {}
        self.over: list[Outage] = []
        self.count = 0
        self.seconds_over = 0.0

    def check(self, ledgers: Mapping[int, PartitionLedger], now: float) -> list[Outage]:
        """Compares all partitions with the bound; returns the outages that have begun or ended."""
        changed = []
        for partition, ledger in ledgers.items():
            sides: dict[Side, float | None] = {
                "produce": ledger.oldest_unacknowledged(),
                "consume": ledger.oldest_unread(),
            }
            for side, since in sides.items():
                change = self._compare(partition, side, since, now)
                if change is not None:
                    changed.append(change)
        return changed

    def seconds(self, now: float) -> float:
        """The total time of all outages, each partition and side counted by itself."""
        return self.seconds_over + sum(outage.seconds(now) for outage in self.ongoing.values())

    def _compare(self, partition: int, side: Side, since: float | None, now: float) -> Outage | None:
        key = (partition, side)
        outage = self.ongoing.get(key)
        is_out = since is not None and now - since >= self.after_seconds
        if is_out and outage is None:
            assert since is not None
            outage = self.ongoing[key] = Outage(partition, side, since)
            self.count += 1
            return outage
        if outage is not None and not is_out:
            del self.ongoing[key]
            outage.ended_at = now
            self.seconds_over += outage.seconds(now)
            self.over.append(outage)
            del self.over[: -self.KEPT_MAX]
            return outage
        return None
