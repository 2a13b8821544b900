"""DescribeConfigs as a computation, against answers that Apache Kafka 4.3.1 gave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.config.broker_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS
from ottla.model.config.effective import (
    ConfigSource,
    EffectiveConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_logger,
    describe_topic,
)
from ottla.model.config.values import ConfigType

from .facts import DESCRIBED

# Set on the peer when it was asked, and refused by this node, so it is left out on both sides.
NOT_HERE = {"leader.replication.throttled.rate", "listener.name.external.ssl.keystore.password"}


def peer_config(moment: str) -> BrokerConfig:
    layers = DESCRIBED[moment]
    return BrokerConfig(
        DESCRIBED["static"],
        dynamic={name: value for name, value in layers["dynamic"].items() if name not in NOT_HERE},
        dynamic_defaults={name: value for name, value in layers["dynamic_defaults"].items() if name not in NOT_HERE},
    )


def shape(entries: Iterable[EffectiveConfig]) -> dict[str, Any]:
    return {
        entry.name: [
            entry.value,
            entry.source.name,
            entry.is_read_only,
            entry.is_sensitive,
            ConfigType(entry.type).name if entry.type else "UNKNOWN",
            [[name, value, source.name] for name, value, source in entry.synonyms],
        ]
        for entry in entries
    }


def answered(moment: str, resource: str) -> dict[str, Any]:
    return {name: entry for name, entry in DESCRIBED["answers"][moment][resource].items() if name not in NOT_HERE}


MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])


@MOMENTS
def test_a_topic_is_described_as_kafka_does(moment: str) -> None:
    ours = shape(describe_topic(peer_config(moment), DESCRIBED[moment]["topic"]))
    assert ours == answered(moment, "topic")


@MOMENTS
def test_a_broker_is_described_as_kafka_does(moment: str) -> None:
    assert shape(describe_broker(peer_config(moment))) == answered(moment, "broker")


@MOMENTS
def test_cluster_defaults_are_described_as_kafka_does(moment: str) -> None:
    ours = shape(describe_cluster_defaults(DESCRIBED[moment]["dynamic_defaults"]))
    assert ours == DESCRIBED["answers"][moment]["cluster"]


@MOMENTS
def test_a_group_is_described_as_kafka_does(moment: str) -> None:
    assert shape(describe_group(peer_config(moment), DESCRIBED[moment]["group"])) == answered(moment, "group")


@MOMENTS
def test_client_metrics_are_described_as_kafka_does(moment: str) -> None:
    ours = shape(describe_client_metrics(DESCRIBED[moment]["client_metrics"]))
    assert ours == answered(moment, "client_metrics")


def test_known_keys_are_documented_and_dynamic_only_ones_are_not() -> None:
    for entry in describe_broker(peer_config("before")):
        assert bool(entry.documentation) == (entry.name in BROKER_KEYS)
    (rate,) = describe_cluster_defaults({"leader.replication.throttled.rate": "1"})
    assert rate.name in DYNAMIC_ONLY_KEYS
    assert rate.documentation is None


def test_a_logger_has_a_level_and_nothing_else() -> None:
    entry = describe_logger("ottla.broker", "INFO")
    assert (entry.value, entry.source, entry.is_read_only) == (
        "INFO",
        ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        False,
    )


def test_a_secret_is_never_shown() -> None:
    config = BrokerConfig.embedded({"some.plugin.token": "secret"})
    (entry,) = (entry for entry in describe_broker(config) if entry.name == "some.plugin.token")
    assert entry.is_sensitive
    assert "secret" not in repr(entry)
