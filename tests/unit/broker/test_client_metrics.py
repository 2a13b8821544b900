"""Metrics that clients push (KIP-714): subscriptions, the pace of clients, bounds."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from ottla.broker.client_metrics.instances import INSTANCES_MAX, ClientInstances
from ottla.broker.client_metrics.receiver import ClientMetricsReceiver, Pushed
from ottla.broker.client_metrics.series import CLIENTS_MAX, POINTS_MAX, PushedMetrics
from ottla.broker.client_metrics.subscriptions import ClientAttributes, Subscriptions, Target
from ottla.metadata.image import ConfigResource, ConfigsImage, ResourceType
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.compression import Codec, compress
from ottla.wire.otlp import MetricPoint, encode_metrics

CLIENT = ClientAttributes("", "app-1", "ottla", "0.1.0", "10.0.0.1", "5000")
ID = Uuid(b"i" * 16)
BYTES_MAX = 10_000


def configs(**subscriptions: Mapping[str, str]) -> ConfigsImage:
    builder = ConfigsImage().by_resource.builder()
    for name, overrides in subscriptions.items():
        builder[ConfigResource(ResourceType.CLIENT_METRICS, name)] = overrides
    return ConfigsImage(builder.build())


ALL = configs(all={"metrics": "*", "interval.ms": "1000"})


class TestSubscriptions:
    def test_matching_subscriptions_are_united(self) -> None:
        subscriptions = configs(
            one={"metrics": "a.,b.", "interval.ms": "2000", "match": "client_id=app-.*"},
            two={"metrics": "c.", "interval.ms": "500", "match": "client_software_name=ottla, client_id=app-1"},
            other={"metrics": "*", "interval.ms": "100", "match": "client_id=app"},
            empty={"interval.ms": "100"},
        )
        assert Subscriptions(subscriptions).target(CLIENT) == Target(("a.", "b.", "c."), 500)
        assert Subscriptions(subscriptions).target(CLIENT._replace(client_id="app")) == Target(("*",), 100)
        assert Subscriptions(subscriptions).target(CLIENT._replace(client_id="x")) == Target((), 300_000)

    def test_the_id_changes_with_the_target_and_the_client(self) -> None:
        target = Target(("a",), 100)
        assert target.id_for(ID) == Target(("a",), 100).id_for(ID)
        others = {Target(("b",), 100).id_for(ID), Target(("a",), 200).id_for(ID), target.id_for(Uuid.ONE)}
        assert target.id_for(ID) not in others
        assert all(-(2**31) <= number < 2**31 for number in others)


def receiver() -> ClientMetricsReceiver:
    return ClientMetricsReceiver(Random(1), BYTES_MAX)


def push(subscription_id: int, *points: MetricPoint, codec: Codec = Codec.NONE, terminating: bool = False) -> Pushed:
    payload = compress(codec, encode_metrics(points or [MetricPoint("a", 1.0)], {}))
    return Pushed(ID, subscription_id, terminating, codec, payload)


class TestPace:
    def test_a_client_asks_then_pushes_once_within_an_interval(self) -> None:
        broker = receiver()
        code, instance_id, target, subscription_id = broker.ask(Uuid.ZERO, CLIENT, ALL, 0.0)
        assert (code, target) == (ErrorCode.NONE, Target(("*",), 1000))
        assert broker.ask(instance_id, CLIENT, ALL, 0.5)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        pushed = push(subscription_id)._replace(instance_id=instance_id)
        assert broker.push(pushed, CLIENT, ALL, 0.6) == ErrorCode.NONE
        assert broker.push(pushed, CLIENT, ALL, 1.2) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert broker.push(pushed, CLIENT, ALL, 1.7) == ErrorCode.NONE
        # A client that ends may push at once, and never again.
        last = pushed._replace(terminating=True)
        assert broker.push(last, CLIENT, ALL, 1.8) == ErrorCode.NONE
        assert broker.push(last, CLIENT, ALL, 9.0) == ErrorCode.INVALID_REQUEST
        assert list(broker.pushed.rows(9.0)) == []

    def test_a_changed_subscription_is_told_at_the_next_push(self) -> None:
        broker = receiver()
        _, _, _, before = broker.ask(ID, CLIENT, ALL, 0.0)
        changed = configs(all={"metrics": "a", "interval.ms": "1000"})
        assert broker.push(push(before), CLIENT, changed, 0.1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        code, _, target, after = broker.ask(ID, CLIENT, changed, 0.2)
        assert (code, target.metrics) == (ErrorCode.NONE, ("a",))
        assert broker.push(push(after), CLIENT, changed, 0.3) == ErrorCode.NONE

    @pytest.mark.parametrize("codec", list(Codec))
    def test_every_codec_is_taken(self, codec: Codec) -> None:
        broker = receiver()
        _, _, _, subscription_id = broker.ask(ID, CLIENT, ALL, 0.0)
        assert broker.push(push(subscription_id, codec=codec), CLIENT, ALL, 0.1) == ErrorCode.NONE
        assert [(row.metric, row.value) for row in broker.pushed.rows(0.1)] == [("a", 1.0)]

    def test_bad_pushes(self) -> None:
        good = push(Target(("*",), 1000).id_for(ID))
        bad = {
            ErrorCode.INVALID_REQUEST: good._replace(instance_id=Uuid.ZERO),
            ErrorCode.UNKNOWN_SUBSCRIPTION_ID: good._replace(subscription_id=7),
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: good._replace(codec=99),
            ErrorCode.TELEMETRY_TOO_LARGE: good._replace(payload=b"\0" * (BYTES_MAX + 1)),
            ErrorCode.INVALID_RECORD: good._replace(payload=b"\xff"),
        }
        for code, pushed in bad.items():
            broker = receiver()
            assert broker.push(pushed, CLIENT, ALL, 0.0) == code
            assert broker.refused == {code: 1}
        bomb = good._replace(codec=Codec.GZIP, payload=compress(Codec.GZIP, b"\0" * (100 * BYTES_MAX)))
        assert receiver().push(bomb, CLIENT, ALL, 0.0) == ErrorCode.INVALID_RECORD


class TestBounds:
    def test_instances_are_forgotten_in_their_order(self) -> None:
        instances = ClientInstances()
        target = Target((), 1)
        for number in range(INSTANCES_MAX + 5):
            instances.find(Uuid(number.to_bytes(16, "big")), target)
        assert len(instances) == INSTANCES_MAX

    def test_clients_metrics_and_texts_are_bounded(self) -> None:
        pushed = PushedMetrics()
        points = [MetricPoint("m" * 1_000, 1.0, (("k", str(number)),)) for number in range(POINTS_MAX + 3)]
        for number in range(CLIENTS_MAX + 3):
            pushed.add(Uuid(number.to_bytes(16, "big")), "c" * 1_000, "s", points, now=0.0, interval_ms=1_000)
        rows = list(pushed.rows(0.0))
        assert len(rows) == CLIENTS_MAX * POINTS_MAX
        assert pushed.dropped == 3 * (CLIENTS_MAX + 3)
        assert max(len(row.metric) for row in rows) == max(len(row.client_id) for row in rows) == 200

    def test_growth_is_added_and_silent_clients_are_forgotten(self) -> None:
        pushed = PushedMetrics()
        grown = MetricPoint("a", 2.0, is_sum=True, is_delta=True)
        for now in (0.0, 1.0):
            pushed.add(ID, "c", "s", [grown, MetricPoint("b", now)], now=now, interval_ms=1_000)
        assert {row.metric: row.value for row in pushed.rows(4.0)} == {"a": 4.0, "b": 1.0}
        assert list(pushed.rows(4.1)) == []
