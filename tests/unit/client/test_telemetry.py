"""The metrics that clients push to brokers (KIP-714), without a broker."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from ottla.client.errors import ConnectionLost
from ottla.client.measures import PRODUCER_METRICS, PRODUCER_TOTALS, ProducerMeasures, RequestMeasures
from ottla.client.settings import ClientSettings
from ottla.client.telemetry.points import ClientPoints, telemetry_name
from ottla.client.telemetry.reporter import Telemetry
from ottla.client.telemetry.subscription import DEFAULT_INTERVAL_MS, Next, TelemetrySubscription, after_push
from ottla.model.errors import ErrorCode
from ottla.records.compression import Codec
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.otlp import MetricPoint, decode_metrics

SENT = "org.apache.kafka.producer.record.send.total"
RATE = "org.apache.kafka.producer.record.send.rate"


def subscription(**fields: object) -> TelemetrySubscription:
    return TelemetrySubscription.of(GetTelemetrySubscriptionsResponse(**fields))  # type: ignore[arg-type]


def test_names_are_those_of_kafka() -> None:
    assert telemetry_name("consumer-fetch-manager-metrics", "fetch-rate") == (
        "org.apache.kafka.consumer.fetch.manager.fetch.rate"
    )


def test_a_subscription_names_prefixes() -> None:
    assert not subscription().wants("a.b")
    assert subscription(requested_metrics=["*"]).wants("a.b")
    assert subscription(requested_metrics=[""]).wants("a.b")
    filtered = subscription(requested_metrics=["a.", "c"])
    assert [name for name in ("a.b", "ab", "cd", "b.a") if filtered.wants(name)] == ["a.b", "cd"]
    assert subscription(push_interval_ms=0).interval_ms == DEFAULT_INTERVAL_MS


def test_the_first_known_compression_of_the_broker_is_used() -> None:
    assert subscription().codec is Codec.NONE
    assert subscription(accepted_compression_types=[99, 4, 1]).codec is Codec.ZSTD


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (0, Next.PUSH),
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, Next.ASK),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, Next.ASK),
        (ErrorCode.TELEMETRY_TOO_LARGE, Next.ASK_LATER),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, Next.ASK_LATER),
        (ErrorCode.INVALID_RECORD, Next.STOP),
        (ErrorCode.INVALID_REQUEST, Next.STOP),
    ],
)
def test_the_step_after_a_push(code: int, step: Next) -> None:
    assert after_push(code) is step


def test_growth_is_counted_from_the_last_accepted_push_on() -> None:
    measures = ProducerMeasures()
    points = ClientPoints(PRODUCER_METRICS, PRODUCER_TOTALS, measures, RequestMeasures())

    def sent(*, is_delta: bool) -> float:
        (point,) = points.read(lambda name: name == SENT, is_delta=is_delta, now_ns=1)
        assert (point.is_sum, point.is_delta) == (True, is_delta)
        return point.value

    measures.records = 5
    assert sent(is_delta=True) == 5
    measures.records = 7
    # The first push was lost.
    assert sent(is_delta=True) == 7
    points.on_accepted()
    measures.records = 8
    assert sent(is_delta=True) == 1
    assert sent(is_delta=False) == 8


@pytest.mark.parametrize("outcome", ["no answer", "cancelled", "refused"])
def test_growth_that_a_broker_may_have_is_not_counted_twice(outcome: str) -> None:
    measures = ProducerMeasures(records=5)
    sums: list[float] = []

    class Broker:
        settings = ClientSettings(bootstrap_servers=())

        async def any_connection(self) -> Broker:
            return self

        async def ask(self, request: PushTelemetryRequest, **_: object) -> PushTelemetryResponse:
            sums.extend(point.value for point in decode_metrics(bytes(request.metrics), points_max=9))
            if outcome == "no answer":
                raise ConnectionLost("gone")
            if outcome == "cancelled" and not request.terminating:
                await asyncio.Event().wait()
            return PushTelemetryResponse(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    async def scenario() -> None:
        anything: Any = Broker()
        points = ClientPoints(PRODUCER_METRICS, PRODUCER_TOTALS, measures, RequestMeasures())
        telemetry = Telemetry(anything, lambda: points, {})
        wanted = subscription(requested_metrics=[SENT], delta_temporality=True)
        push = asyncio.ensure_future(telemetry._push(wanted, terminating=False))
        while not sums:
            await asyncio.sleep(0)
        push.cancel()
        await asyncio.gather(push, return_exceptions=True)
        measures.records = 7
        with contextlib.suppress(ConnectionLost):
            await telemetry._push(wanted, terminating=True)

    asyncio.run(scenario())
    assert sums == ([5, 7] if outcome == "refused" else [5, 2])


def test_the_first_push_has_rates_and_counts_since_the_start_of_the_client() -> None:
    measures = ProducerMeasures(records=3)
    pushed: list[MetricPoint] = []

    class Broker:
        settings = ClientSettings(bootstrap_servers=())

        async def any_connection(self) -> Broker:
            return self

        async def ask(self, request: Any, **_: object) -> Any:
            if isinstance(request, PushTelemetryRequest):
                pushed.extend(decode_metrics(bytes(request.metrics), points_max=99))
                return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
            return GetTelemetrySubscriptionsResponse(requested_metrics=[SENT, RATE], delta_temporality=True)

    async def while_waiting(_: float) -> None:
        measures.records += 5

    async def scenario() -> None:
        broker: Any = Broker()
        telemetry: Any = Telemetry(
            broker,
            lambda: ClientPoints(PRODUCER_METRICS, PRODUCER_TOTALS, measures, RequestMeasures(), start_ns=7),
            {},
        )
        telemetry._wait = while_waiting
        await telemetry._run()

    asyncio.run(scenario())
    points = {point.name: point for point in pushed}
    assert points[RATE].value > 0
    assert (points[SENT].value, points[SENT].start_ns) == (8, 7)
