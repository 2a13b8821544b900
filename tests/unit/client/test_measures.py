"""The counters of clients, and their rates and averages."""

from __future__ import annotations

import math

import pytest

from ottla.client import measures
from ottla.client.measures import (
    CONSUMER_METRICS,
    PRODUCER_METRICS,
    ConsumerMeasures,
    ProducerMeasures,
    Recent,
    RequestMeasures,
    metric_values,
)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("ottla.client.measures.time.monotonic", lambda: self.now)


def test_rates_and_averages_of_a_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    counted, requests = ProducerMeasures(), RequestMeasures()
    recent = Recent(counted, requests)
    assert math.isnan(metric_values(PRODUCER_METRICS, recent)["request-latency-avg"])
    counted.records, counted.batches, counted.batch_bytes, counted.queue_seconds = 50, 4, 4096, 0.02
    counted.produce_requests, counted.produce_seconds, counted.failed_records = 2, 0.01, 1
    requests.requests, requests.request_bytes = 2, 5000
    clock.now += 10
    measured = metric_values(PRODUCER_METRICS, recent)
    assert measured["record-send-rate"] == 5
    assert measured["record-error-rate"] == 0.1
    assert measured["batch-size-avg"] == 1024
    assert measured["record-queue-time-avg"] == pytest.approx(5)
    assert measured["request-latency-avg"] == pytest.approx(5)
    assert measured["records-per-request-avg"] == 25
    assert (measured["request-rate"], measured["request-size-avg"], measured["outgoing-byte-rate"]) == (0.2, 2500, 500)


def test_what_is_long_past_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    counted = ConsumerMeasures()
    recent = Recent(counted, RequestMeasures())
    counted.records = 1000
    for _ in range(3):
        clock.now += measures.RECENT_SECONDS
        metric_values(CONSUMER_METRICS, recent)
    clock.now += 1
    assert metric_values(CONSUMER_METRICS, recent)["records-consumed-rate"] == 0
    counted.records += 62
    assert metric_values(CONSUMER_METRICS, recent)["records-consumed-rate"] == 2
