"""Metrics of quotas: the usage of clients that share a quota, and their throttle times.

A quota is reported if its clients have used something within the last hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import GAUGE, Metric, Row

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.quotas.meters import BucketMeter, Meter, RateMeter

__all__ = ["QUOTA_METRICS"]

_LABELS = ("user", "client_id")


def _kind(clients: ClientQuotas, kind: str, now: float) -> Iterator[Meter]:
    if kind == "mutation":
        return clients.mutation.all(now)
    meters = {"produce": clients.produce, "fetch": clients.fetch, "request": clients.request}[kind]
    return meters.all(now)


def _rows(scrape: Scrape, kind: str, number: Callable[[Meter, float], float]) -> Iterator[Row]:
    clients = scrape.broker.quota.clients
    if clients is not None:
        now = scrape.broker.world.clock.monotonic()
        for meter in _kind(clients, kind, now):
            yield (meter.user or None, meter.client_id or None), number(meter, now)


def _rates(kind: str) -> Callable[[Scrape], Iterator[Row]]:
    def number(meter: Meter, now: float) -> float:
        rated: RateMeter = meter  # type: ignore[assignment]
        return rated.rate.rate(now)

    return lambda scrape: _rows(scrape, kind, number)


def _tokens(scrape: Scrape) -> Iterator[Row]:
    def number(meter: Meter, now: float) -> float:
        bucket: BucketMeter = meter  # type: ignore[assignment]
        return bucket.bucket.tokens(now)

    return _rows(scrape, "mutation", number)


def _throttle_times(kind: str) -> Callable[[Scrape], Iterator[Row]]:
    """The mean throttle time of the last minute or two."""

    def read(scrape: Scrape) -> Iterator[Row]:
        def number(meter: Meter, now: float) -> float:  # noqa: ARG001
            counted = (meter.throttled, meter.throttled_ms_total)
            count, total = scrape.recent.growth(f"throttled {kind} {meter.user} {meter.client_id}", counted)
            return total / count if count > 0 else 0.0

        return _rows(scrape, kind, number)

    return read


def _of(kind: str, attribute: str) -> str:
    return f"kafka.server:type={kind},user=*,client-id=*; {attribute}"


_THROTTLE_HELP = "Mean throttle time of the clients of a quota in the last minute or two, in milliseconds"

# fmt: off
QUOTA_METRICS: Final = (
    Metric("kafka_server_produce_byte_rate", GAUGE, _LABELS,
           "Bytes per second that the clients of a quota produce.",
           _of("Produce", "byte-rate"), _rates("produce")),
    Metric("kafka_server_produce_throttle_time", GAUGE, _LABELS,
           f"{_THROTTLE_HELP}, for producing.", _of("Produce", "throttle-time"), _throttle_times("produce")),
    Metric("kafka_server_fetch_byte_rate", GAUGE, _LABELS,
           "Bytes per second that the clients of a quota fetch.",
           _of("Fetch", "byte-rate"), _rates("fetch")),
    Metric("kafka_server_fetch_throttle_time", GAUGE, _LABELS,
           f"{_THROTTLE_HELP}, for fetching.", _of("Fetch", "throttle-time"), _throttle_times("fetch")),
    Metric("kafka_server_request_request_time", GAUGE, _LABELS,
           "Percentage of the node's time that the clients of a quota use.",
           _of("Request", "request-time"), _rates("request")),
    Metric("kafka_server_request_throttle_time", GAUGE, _LABELS,
           f"{_THROTTLE_HELP}, for request time.", _of("Request", "throttle-time"), _throttle_times("request")),
    Metric("kafka_server_controllermutation_tokens", GAUGE, _LABELS,
           "Partitions that the clients of a quota may create or delete at once; below 0 they are throttled.",
           _of("ControllerMutation", "tokens"), _tokens),
    Metric("kafka_server_controllermutation_throttle_time", GAUGE, _LABELS,
           f"{_THROTTLE_HELP}, for topic changes.",
           _of("ControllerMutation", "throttle-time"), _throttle_times("mutation")),
)
# fmt: on
