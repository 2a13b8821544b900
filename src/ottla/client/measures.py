"""Counters of clients, and metrics under the names of Kafka's clients.

Working code adds to plain fields. `metrics()` of a producer or consumer turns them into rates and averages over the
last one to two windows (`metrics_window_ms`, 30 seconds) if it is called that often, and otherwise since the last call
or the start of the client. The tables here list all metrics; `docs/metrics.md` is generated from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

__all__ = [
    "CONSUMER_METRICS",
    "CONSUMER_TOTALS",
    "PRODUCER_METRICS",
    "PRODUCER_TOTALS",
    "SHARE_METRICS",
    "SHARE_TOTALS",
    "ClientMetric",
    "ConsumerMeasures",
    "Measures",
    "ProducerMeasures",
    "Recent",
    "RequestMeasures",
    "ShareMeasures",
    "Totals",
    "Window",
    "metric_values",
]

# The window of recent values by default: at least this long, at most twice as long.
RECENT_SECONDS = 30.0


@dataclass(slots=True)
class RequestMeasures:
    """Counters of all requests of a connection pool."""

    requests: int = 0
    request_bytes: int = 0
    responses: int = 0
    response_bytes: int = 0
    latency_seconds: float = 0.0
    connections: int = 0


@dataclass(slots=True)
class ProducerMeasures:
    records: int = 0
    failed_records: int = 0
    retried_records: int = 0
    # Records that the cluster had already: retried because a response was lost.
    duplicate_records: int = 0
    # Batches that were too large for their topic.
    split_batches: int = 0
    batches: int = 0
    batch_bytes: int = 0
    # The time from a batch's first record to its sending.
    queue_seconds: float = 0.0
    produce_requests: int = 0
    produce_seconds: float = 0.0


@dataclass(slots=True)
class ConsumerMeasures:
    fetches: int = 0
    fetch_seconds: float = 0.0
    fetched_bytes: int = 0
    records: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_seconds: float = 0.0
    rebalances: int = 0


@dataclass(slots=True)
class ShareMeasures:
    fetches: int = 0
    fetch_seconds: float = 0.0
    fetched_bytes: int = 0
    records: int = 0
    acknowledgements: int = 0
    failed_acknowledgements: int = 0
    rebalances: int = 0


Measures = RequestMeasures | ProducerMeasures | ConsumerMeasures | ShareMeasures


class Window(NamedTuple):
    """The growth of the counters over a number of seconds."""

    seconds: float
    growth: dict[str, float]
    # Values of this moment.
    gauges: dict[str, float]

    def rate(self, name: str) -> float:
        return self.growth[name] / self.seconds if self.seconds > 0 else 0.0

    def gauge(self, name: str) -> float:
        """A value of this moment; NaN if the client does not have it."""
        return self.gauges.get(name, float("nan"))

    def average(self, of: str, by: str, *, unit: float = 1.0) -> float:
        """The average; NaN without events, as in Kafka."""
        return self.growth[of] * unit / self.growth[by] if self.growth[by] else float("nan")


class Recent:
    """Keeps earlier values of counters, to compute their growth."""

    def __init__(
        self,
        *measures: Measures,
        window_seconds: float = RECENT_SECONDS,
        gauges: Callable[[], dict[str, float]] = dict,
    ) -> None:
        self._measures = measures
        self._gauges = gauges
        self._window_seconds = window_seconds
        self._before = self._next = (time.monotonic(), self._now())

    def window(self) -> Window:
        now, figures = time.monotonic(), self._now()
        then, before = self._before
        if now - self._next[0] >= self._window_seconds:
            self._before, self._next = self._next, (now, figures)
        growth = {name: value - before[name] for name, value in figures.items()}
        return Window(now - then, growth, self._gauges())

    def _now(self) -> dict[str, float]:
        return {name: value for measure in self._measures for name, value in asdict(measure).items()}


# The name of a total in Kafka, its group, and the counter that has it.
Totals = tuple[tuple[str, str, str], ...]


class ClientMetric(NamedTuple):
    name: str
    help: str
    # Its group among Kafka's metrics.
    group: str
    read: Callable[[Window], float]


def metric_values(metrics: tuple[ClientMetric, ...], recent: Recent) -> dict[str, float]:
    window = recent.window()
    return {metric.name: metric.read(window) for metric in metrics}


_PRODUCER, _FETCH, _COORDINATOR, _CONSUMER, _SHARE, _SHARE_FETCH, _SHARE_COORDINATOR = (
    "producer-metrics",
    "consumer-fetch-manager-metrics",
    "consumer-coordinator-metrics",
    "consumer-metrics",
    "consumer-share-metrics",
    "consumer-share-fetch-manager-metrics",
    "consumer-share-coordinator-metrics",
)


def _requests(group: str) -> tuple[ClientMetric, ...]:
    # fmt: off
    return (
        ClientMetric("request-rate", "Requests sent, in a second.", group, lambda w: w.rate("requests")),
        ClientMetric("request-size-avg", "Average size of requests, in bytes.", group,
                     lambda w: w.average("request_bytes", "requests")),
        ClientMetric("response-rate", "Answers received, in a second.", group, lambda w: w.rate("responses")),
        ClientMetric("outgoing-byte-rate", "Bytes sent, in a second.", group, lambda w: w.rate("request_bytes")),
        ClientMetric("incoming-byte-rate", "Bytes received, in a second.", group, lambda w: w.rate("response_bytes")),
        ClientMetric("connection-creation-rate", "Connections opened, in a second.", group,
                     lambda w: w.rate("connections")),
    )
    # fmt: on


# fmt: off
PRODUCER_METRICS = (
    ClientMetric("record-send-rate", "Records sent and acknowledged, in a second.", _PRODUCER,
                 lambda w: w.rate("records")),
    ClientMetric("record-error-rate", "Records that could not be delivered, in a second: must be 0.", _PRODUCER,
                 lambda w: w.rate("failed_records")),
    ClientMetric("record-retry-rate", "Records sent again, in a second.", _PRODUCER,
                 lambda w: w.rate("retried_records")),
    ClientMetric("record-duplicate-rate", "Records that the cluster had already, in a second; Kafka has no such name.",
                 _PRODUCER, lambda w: w.rate("duplicate_records")),
    ClientMetric("record-queue-time-avg", "Average time from a batch's first record until it left, in milliseconds.",
                 _PRODUCER, lambda w: w.average("queue_seconds", "batches", unit=1000)),
    ClientMetric("batch-size-avg", "Average size of batches, in bytes.", _PRODUCER,
                 lambda w: w.average("batch_bytes", "batches")),
    ClientMetric("batch-split-rate", "Batches that were too large for their topic and were split, in a second.",
                 _PRODUCER, lambda w: w.rate("split_batches")),
    ClientMetric("records-per-request-avg", "Average number of records in a request.", _PRODUCER,
                 lambda w: w.average("records", "produce_requests")),
    ClientMetric("request-latency-avg", "Average time from a produce request to its answer, in milliseconds.",
                 _PRODUCER, lambda w: w.average("produce_seconds", "produce_requests", unit=1000)),
    ClientMetric("buffer-total-bytes", "Size of the buffer, in bytes.", _PRODUCER, lambda w: w.gauge("buffer_total")),
    ClientMetric("buffer-available-bytes", "Room that is left in the buffer, in bytes: sends wait at 0.", _PRODUCER,
                 lambda w: w.gauge("buffer_available")),
    ClientMetric("waiting-threads", "Topics with sends that wait for room or metadata.", _PRODUCER,
                 lambda w: w.gauge("waiting")),
    ClientMetric("requests-in-flight", "Produce requests that are not answered yet.", _PRODUCER,
                 lambda w: w.gauge("in_flight")),
    *_requests(_PRODUCER),
)
CONSUMER_METRICS = (
    ClientMetric("fetch-latency-avg", "Average time from a fetch to its answer, in milliseconds: fetch.min.bytes and "
                 "fetch.max.wait.ms shape it.", _FETCH, lambda w: w.average("fetch_seconds", "fetches", unit=1000)),
    ClientMetric("fetch-rate", "Fetches answered, in a second.", _FETCH, lambda w: w.rate("fetches")),
    ClientMetric("fetch-size-avg", "Average size of what a fetch brought, in bytes.", _FETCH,
                 lambda w: w.average("fetched_bytes", "fetches")),
    ClientMetric("bytes-consumed-rate", "Bytes of records that came, in a second.", _FETCH,
                 lambda w: w.rate("fetched_bytes")),
    ClientMetric("records-consumed-rate", "Records handed out, in a second.", _FETCH, lambda w: w.rate("records")),
    ClientMetric("commit-rate", "Commits of offsets, in a second.", _COORDINATOR, lambda w: w.rate("commits")),
    ClientMetric("commit-failed-rate", "Commits of offsets that failed, in a second; Kafka has no such name.",
                 _COORDINATOR, lambda w: w.rate("failed_commits")),
    ClientMetric("commit-latency-avg", "Average time of a commit, in milliseconds.", _COORDINATOR,
                 lambda w: w.average("commit_seconds", "commits", unit=1000)),
    ClientMetric("rebalance-rate-per-hour", "Times that partitions came or went, in an hour.", _COORDINATOR,
                 lambda w: w.rate("rebalances") * 3600),
    ClientMetric("records-lag-max", "Largest number of records that a partition lags behind its end.", _FETCH,
                 lambda w: w.gauge("lag_max")),
    ClientMetric("assigned-partitions", "Partitions that are assigned.", _COORDINATOR, lambda w: w.gauge("assigned")),
    *_requests(_CONSUMER),
)
SHARE_METRICS = (
    ClientMetric("fetch-latency-avg", "Average time from a fetch to its answer, in milliseconds.", _SHARE_FETCH,
                 lambda w: w.average("fetch_seconds", "fetches", unit=1000)),
    ClientMetric("fetch-rate", "Fetches answered, in a second.", _SHARE_FETCH, lambda w: w.rate("fetches")),
    ClientMetric("fetch-size-avg", "Average size of what a fetch brought, in bytes.", _SHARE_FETCH,
                 lambda w: w.average("fetched_bytes", "fetches")),
    ClientMetric("bytes-consumed-rate", "Bytes of records that came, in a second.", _SHARE_FETCH,
                 lambda w: w.rate("fetched_bytes")),
    ClientMetric("records-consumed-rate", "Records handed out, in a second.", _SHARE_FETCH,
                 lambda w: w.rate("records")),
    ClientMetric("acknowledgements-send-rate", "Acknowledgements of records, in a second.", _SHARE_FETCH,
                 lambda w: w.rate("acknowledgements")),
    ClientMetric("acknowledgements-error-rate", "Acknowledgements that failed, in a second.", _SHARE_FETCH,
                 lambda w: w.rate("failed_acknowledgements")),
    ClientMetric("rebalance-rate-per-hour", "Times that the assignment changed, in an hour.", _SHARE_COORDINATOR,
                 lambda w: w.rate("rebalances") * 3600),
    *_requests(_SHARE),
)

# Totals that are pushed to brokers beside the metrics above.
PRODUCER_TOTALS: Totals = (
    ("connection-creation-total", _PRODUCER, "connections"),
    ("record-send-total", _PRODUCER, "records"),
    ("record-error-total", _PRODUCER, "failed_records"),
    ("record-retry-total", _PRODUCER, "retried_records"),
    ("batch-split-total", _PRODUCER, "split_batches"),
    ("outgoing-byte-total", _PRODUCER, "request_bytes"),
)
CONSUMER_TOTALS: Totals = (
    ("connection-creation-total", _CONSUMER, "connections"),
    ("fetch-total", _FETCH, "fetches"),
    ("records-consumed-total", _FETCH, "records"),
    ("bytes-consumed-total", _FETCH, "fetched_bytes"),
    ("commit-total", _COORDINATOR, "commits"),
    ("rebalance-total", _COORDINATOR, "rebalances"),
)
SHARE_TOTALS: Totals = (
    ("connection-creation-total", _SHARE, "connections"),
    ("fetch-total", _SHARE_FETCH, "fetches"),
    ("records-consumed-total", _SHARE_FETCH, "records"),
    ("acknowledgements-send-total", _SHARE_FETCH, "acknowledgements"),
)
# fmt: on
