"""The allowance of a connection's client for producing and fetching: its meters, looked up once for many requests.

A connection keeps the `Allowance` of its last request, because nearly all of its requests have the same principal and
client id. A change of quotas or of the set of meters gives the `Resolution` another number, and every allowance then
finds its meters again: even one that a parked fetch refers to charges the quotas of the moment it is answered.

A meter costs more than all other work that quotas add to a request. So within a millisecond an allowance counts small
requests by itself, up to what the quota allows in a millisecond, and tells its meter with the first request after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.quotas.meters import RateMeter

__all__ = ["Allowance", "Resolution", "milliseconds"]

_MILLISECOND = 0.001
# No throttle time, and the answer may be sent.
_GIVEN = (0, True)


class Resolution:
    """The number of the present assignment of clients to meters."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class Allowance:
    """The byte rates of one user and client id."""

    __slots__ = (
        "_clients",
        "_fetch",
        "_fetch_given",
        "_fetch_left",
        "_fetch_ms",
        "_now",
        "_produce",
        "_produce_given",
        "_resolution",
        "_user",
        "client_id",
        "fetch_bytes_max",
        "number",
        "produce_left",
        "produce_ms",
    )

    def __init__(self, clients: ClientQuotas, user: str, client_id: str | None) -> None:
        self._clients = clients
        self._resolution = clients.resolution
        self._now = clients.now
        self._user = user
        self.client_id = client_id
        self._produce: RateMeter | None = None
        self._fetch: RateMeter | None = None
        # The largest answer to a fetch that can be within the quota; None without a quota.
        self.fetch_bytes_max: int | None = None
        # The bytes that may pass in this millisecond without the meter, and the remaining part of them.
        self.produce_ms = self._fetch_ms = -1
        self._produce_given = self.produce_left = 0
        self._fetch_given = self._fetch_left = 0
        self.resolve()

    def produced(self, size_bytes: int) -> int:
        """The throttle time for a produce request of that size, in milliseconds."""
        if self.number != self._resolution.number:
            self.resolve()
        meter = self._produce
        if meter is None:
            return 0
        meter.used = now = self._now()
        size_bytes += self._produce_given - self.produce_left
        excess_seconds = meter.rate.charge(size_bytes, meter.limit, now)
        if not excess_seconds:
            self._produce_given = self.produce_left = int(meter.limit * _MILLISECOND)
            return 0
        self._produce_given = self.produce_left = 0
        throttle_ms = milliseconds(excess_seconds)
        if throttle_ms:
            meter.count_throttled(throttle_ms)
        return throttle_ms

    def fetched(self, size_bytes: int, now_ms: int) -> tuple[int, bool]:
        """The throttle time for an answer of that size, and whether the answer may be sent with its records.

        The records may be sent if nothing was fetched within the windows: a single batch can exceed the quota of all
        windows, and a consumer that never gets the batch would never make progress.
        """
        if now_ms == self._fetch_ms and size_bytes <= self._fetch_left:
            self._fetch_left -= size_bytes
            return _GIVEN
        if self.number != self._resolution.number:
            self.resolve()
        meter = self._fetch
        if meter is None:
            return _GIVEN
        meter.used = now = self._now()
        counted_bytes = self._fetch_given - self._fetch_left
        excess_seconds = meter.rate.charge(counted_bytes + size_bytes, meter.limit, now)
        if not excess_seconds:
            self._fetch_ms, self._fetch_given = now_ms, int(meter.limit * _MILLISECOND)
            self._fetch_left = self._fetch_given
            return _GIVEN
        self._fetch_given = self._fetch_left = 0
        throttle_ms = milliseconds(excess_seconds)
        if throttle_ms:
            is_first = meter.rate.has_only(size_bytes)
            meter.count_throttled(throttle_ms)
            if not is_first:
                meter.rate.record(-size_bytes, now)
                return throttle_ms, False
        return throttle_ms, True

    def resolve(self) -> None:
        """Looks up the meters, at first and whenever the number of the resolution has changed."""
        clients, now = self._clients, self._now()
        self._produce = clients.produce.of(self._user, self.client_id, now)
        self._fetch = clients.fetch.of(self._user, self.client_id, now)
        self.fetch_bytes_max = None if self._fetch is None else clients.burst_bytes(self._fetch.limit)
        # The number is read last, because a new meter can replace idle meters, which changes the number.
        self.number = self._resolution.number


def milliseconds(seconds: float) -> int:
    return round(min(seconds * 1000, 0x7FFFFFFF))
