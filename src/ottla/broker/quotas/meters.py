"""The meters of one kind of quota: one meter for all clients that share a quota, made with the first request.

Their number is bounded, since clients choose their client ids: at the bound, idle meters are dropped, which changes no
decision. If none is idle, all further clients share one meter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from ottla.broker.quotas.allowance import Resolution
from ottla.broker.quotas.rates import TokenBucket, WindowedRate
from ottla.broker.quotas.table import Assigned, QuotaTable
from ottla.metadata.image import QuotaEntity

__all__ = ["METERS_MAX", "BucketMeter", "Meter", "Meters", "RateMeter"]

METERS_MAX = 10_000

# Idle meters stay in the metrics for this time, as in Apache Kafka.
_IDLE_SECONDS_MAX = 3600.0

# Meters at the bound are searched for idle ones once in this time: a client can send every request with another client
# id.
_SEARCH_SECONDS = 1.0
# The name of the meter that clients share beyond the bound.
_OTHERS = "(others)"


class Meter:
    """The use of a quota by the clients that share it, and its limit."""

    __slots__ = ("client_id", "limit", "throttled", "throttled_ms_total", "used", "user")

    def __init__(self, assigned: Assigned, now: float) -> None:
        self.user, self.client_id, self.limit = assigned
        # The time of the last use, and how often and how long its clients were throttled.
        self.used = now
        self.throttled = 0
        self.throttled_ms_total = 0

    def count_throttled(self, throttle_ms: int) -> None:
        self.throttled += 1
        self.throttled_ms_total += throttle_ms

    def change_limit(self, limit: float) -> None:
        self.limit = limit

    def is_idle(self, now: float) -> bool:
        """True if a new meter would decide as this one does."""
        raise NotImplementedError


class RateMeter(Meter):
    __slots__ = ("rate",)

    def __init__(self, assigned: Assigned, rate: WindowedRate, now: float) -> None:
        super().__init__(assigned, now)
        self.rate = rate

    def record(self, amount: float, now: float) -> float:
        """Counts the amount, and returns for how many seconds to throttle."""
        self.used = now
        return self.rate.charge(amount, self.limit, now)

    def is_idle(self, now: float) -> bool:
        return self.rate.is_unused(now)


class BucketMeter(Meter):
    __slots__ = ("bucket",)

    def __init__(self, assigned: Assigned, bucket: TokenBucket, now: float) -> None:
        super().__init__(assigned, now)
        self.bucket = bucket

    def change_limit(self, limit: float) -> None:
        self.limit = self.bucket.limit = limit

    def is_idle(self, now: float) -> bool:
        return self.bucket.is_full(now)


M = TypeVar("M", bound=Meter)


class Meters(Generic[M]):
    __slots__ = ("_by_client", "_by_sharers", "_key", "_make", "_meters_max", "_next_search", "_resolution", "_table")

    def __init__(
        self,
        key: str,
        make: Callable[[Assigned, float], M],
        resolution: Resolution,
        *,
        meters_max: int = METERS_MAX,
    ) -> None:
        """`key` is the name of the quota; `make` makes a meter for an assigned quota at a given time."""
        self._key = key
        self._make = make
        self._meters_max = meters_max
        self._next_search = float("-inf")
        self._resolution = resolution
        self._table = QuotaTable(key, {})
        self._by_sharers: dict[tuple[str, str], M] = {}
        # The meter of a user and client id; None if no quota applies to them.
        self._by_client: dict[tuple[str, str], M | None] = {}

    def __bool__(self) -> bool:
        """True if there is a quota of this kind."""
        return bool(self._table)

    def __len__(self) -> int:
        return len(self._by_sharers)

    def change(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Sets the quotas from the next request on. Meters keep what they have counted."""
        self._table = QuotaTable(self._key, quotas)
        self._by_client.clear()
        self._resolution.number += 1
        if not self._table:
            self._by_sharers.clear()

    def of(self, user: str, client_id: str | None, now: float) -> M | None:
        client = (user, client_id or "")
        try:
            return self._by_client[client]
        except KeyError:
            pass
        assigned = self._table.assigned(*client)
        meter = None if assigned is None else self._meter(assigned, now)
        if len(self._by_client) >= self._meters_max:
            self._by_client.clear()
        self._by_client[client] = meter
        return meter

    def all(self, now: float) -> Iterator[M]:
        """The meters that were used within the last hour."""
        self._drop(lambda meter: now - meter.used > _IDLE_SECONDS_MAX)
        return iter(list(self._by_sharers.values()))

    def _meter(self, assigned: Assigned, now: float) -> M:
        sharers = assigned[:2]
        meter = self._by_sharers.get(sharers)
        if meter is None and len(self._by_sharers) >= self._meters_max:
            if now >= self._next_search:
                self._next_search = now + _SEARCH_SECONDS
                self._drop(lambda idle: idle.is_idle(now))
            if len(self._by_sharers) >= self._meters_max:
                sharers = (_OTHERS, _OTHERS)
                meter = self._by_sharers.get(sharers)
        if meter is None:
            meter = self._by_sharers[sharers] = self._make(Assigned(*sharers, assigned.limit), now)
        elif meter.limit != assigned.limit:
            meter.change_limit(assigned.limit)
        return meter

    def _drop(self, is_unneeded: Callable[[M], bool]) -> None:
        unneeded = [sharers for sharers, meter in self._by_sharers.items() if is_unneeded(meter)]
        if unneeded:
            for sharers in unneeded:
                del self._by_sharers[sharers]
            self._by_client.clear()
            self._resolution.number += 1
