"""Counts what clients use, and computes their throttle times.

Users and client ids have four kinds of quota, and every broker enforces them for itself: bytes produced and bytes
fetched per second, the share of the node's time, and (on the controller) partitions created and deleted per second. The
answer is sent at once with a throttle time, and the connection is not read from for that time, whether the client
obeys or not (KIP-219). A fetch that exceeds the quota is answered without records and is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.quotas.allowance import Allowance, Resolution, milliseconds
from ottla.broker.quotas.meters import BucketMeter, Meters, RateMeter
from ottla.broker.quotas.rates import TokenBucket, WindowedRate
from ottla.broker.quotas.table import Assigned, ConnectionLimits
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.context import RequestContext
    from ottla.metadata.image import QuotaEntity
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Clock

__all__ = ["ClientQuotas", "MutationQuota"]

# The number of addresses that are counted. A further address replaces the one that has been idle for longest.
ADDRESSES_MAX = 10_000


class ClientQuotas:
    """The meters of a node."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self.now = clock.monotonic
        self._window_seconds = float(config.quota_window_size_seconds)
        self._window_count = config.quota_window_num
        self._burst_seconds = float(config.controller_quota_window_size_seconds * config.controller_quota_window_num)
        self.resolution = Resolution()
        self.produce: Meters[RateMeter] = Meters("producer_byte_rate", self._new_rate_meter, self.resolution)
        self.fetch: Meters[RateMeter] = Meters("consumer_byte_rate", self._new_rate_meter, self.resolution)
        # Percent of the time of one thread. A node has one thread, so 100 is its whole time.
        self.request: Meters[RateMeter] = Meters("request_percentage", self._new_rate_meter, self.resolution)
        self.mutation: Meters[BucketMeter] = Meters("controller_mutation_rate", self._new_bucket_meter, self.resolution)
        self.connections = ConnectionLimits({})
        self._connection_rates: dict[str, WindowedRate] = {}

    def change(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        for meters in (self.produce, self.fetch, self.request, self.mutation):
            meters.change(quotas)
        self.connections = ConnectionLimits(quotas)

    @property
    def limits_clients(self) -> bool:
        return bool(self.produce or self.fetch or self.request or self.mutation)

    def allowance(self, user: str, client_id: str | None) -> Allowance:
        """The byte rates of a client, for as many requests as it sends."""
        return Allowance(self, user, client_id)

    def burst_bytes(self, limit: float) -> int:
        """The bytes that a client may use at once after it was idle."""
        return int(limit * (self._window_count - 1) * self._window_seconds)

    def requested(self, context: RequestContext, seconds: float) -> int:
        """The throttle time for a request that took this time; one window at most."""
        return self._record(self.request, context, seconds * 100, longest_seconds=self._window_seconds)

    def mutations(self, context: RequestContext, *, is_strict: bool) -> MutationQuota | None:
        """The quota of a request that changes topics; None without a quota (KIP-599)."""
        now = self.now()
        meter = self.mutation.of(context.principal.name, context.client_id, now)
        return None if meter is None else MutationQuota(meter, self.now, is_strict=is_strict)

    def connected(self, address: str) -> float:
        """For how many seconds a new connection is held before it is closed; 0 accepts it."""
        limit = self.connections.of(address)
        if limit is None:
            return 0.0
        now = self.now()
        rates = self._connection_rates
        rate = rates.pop(address, None)
        if rate is None:
            rate = self._new_rate()
            if len(rates) >= ADDRESSES_MAX:
                # The first address is the one that has been idle for longest.
                del rates[next(iter(rates))]
        rates[address] = rate
        rate.record(1, now)
        excess_seconds = rate.excess_seconds(limit, now)
        if milliseconds(excess_seconds):
            rate.record(-1, now)
            return min(excess_seconds, self._window_seconds)
        return 0.0

    def _record(
        self,
        meters: Meters[RateMeter],
        context: RequestContext,
        amount: float,
        *,
        longest_seconds: float = float("inf"),
    ) -> int:
        if not meters:
            return 0
        now = self.now()
        meter = meters.of(context.connection.principal.name, context.client_id, now)
        if meter is None:
            return 0
        excess_seconds = meter.record(amount, now)
        if not excess_seconds:
            return 0
        return _count_throttled(meter, min(excess_seconds, longest_seconds))

    def _new_rate(self) -> WindowedRate:
        return WindowedRate(window_seconds=self._window_seconds, window_count=self._window_count)

    def _new_rate_meter(self, assigned: Assigned, now: float) -> RateMeter:
        return RateMeter(assigned, self._new_rate(), now)

    def _new_bucket_meter(self, assigned: Assigned, now: float) -> BucketMeter:
        return BucketMeter(assigned, TokenBucket(assigned.limit, burst_seconds=self._burst_seconds, now=now), now)


class MutationQuota:
    """The quota of one request that changes topics.

    Requests of versions that know THROTTLING_QUOTA_EXCEEDED are refused while the bucket is overdrawn; older ones are
    accepted and throttled afterwards.
    """

    __slots__ = ("_is_strict", "_meter", "_now", "_until")

    def __init__(self, meter: BucketMeter, now: Callable[[], float], *, is_strict: bool) -> None:
        self._meter = meter
        self._now = now
        self._is_strict = is_strict
        self._until = 0.0

    def take(self, partitions: int) -> None:
        """Charges for created or deleted partitions. Raises KafkaError if the quota does not allow them now."""
        now = self._now()
        meter = self._meter
        meter.used = now
        if self._is_strict:
            excess_seconds = meter.bucket.excess_seconds(now)
            if milliseconds(excess_seconds):
                self._until = now + excess_seconds
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            meter.bucket.record(partitions, now)
        else:
            meter.bucket.record(partitions, now)
            self._until = now + meter.bucket.excess_seconds(now)

    def throttle_ms(self) -> int:
        """The rest of the throttle time: the answer may be sent some time after the decision."""
        throttle_ms = milliseconds(max(self._until - self._now(), 0.0))
        if throttle_ms:
            self._meter.count_throttled(throttle_ms)
        return throttle_ms


def _count_throttled(meter: RateMeter, excess_seconds: float) -> int:
    throttle_ms = milliseconds(excess_seconds)
    if throttle_ms:
        meter.count_throttled(throttle_ms)
    return throttle_ms
