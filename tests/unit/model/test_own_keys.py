"""Keys that Apache Kafka does not have."""

from __future__ import annotations

import pytest

from ottla.model.config import BrokerConfig, ConfigError
from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.effective import describe_broker, describe_cluster_defaults
from ottla.model.config.own_keys import OWN_KEYS


def test_they_are_apart_from_kafkas() -> None:
    assert not OWN_KEYS.keys() & BROKER_KEYS.keys()
    of_the_authorizer = {"super.users", "allow.everyone.if.no.acl.found"}
    # System properties in Apache Kafka.
    of_the_jvm = {f"org.apache.kafka.sasl.oauthbearer.allowed.{suffix}" for suffix in ("urls", "files")}
    assert all(name.startswith(("ottla.", "confluent.")) for name in OWN_KEYS.keys() - of_the_authorizer - of_the_jvm)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        (":9404", ("", 9404)),
        ("[::1]:9404", ("::1", 9404)),
        ("broker-1.example:65535", ("broker-1.example", 65535)),
    ],
)
def test_where_metrics_are_told(text: str, address: tuple[str, int] | None) -> None:
    config = BrokerConfig.embedded({"ottla.metrics.listener": text})
    assert config.metrics_address == address
    assert config.warnings == ()


@pytest.mark.parametrize("text", ["9404", "host", "host:", "host:x", "host:65536", "host:-1"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"ottla\.metrics\.listener"):
        BrokerConfig.embedded({"ottla.metrics.listener": text})


def test_the_format_of_the_log() -> None:
    assert BrokerConfig.embedded().ottla_log_format == "text"
    with pytest.raises(ConfigError, match=r"ottla\.log\.format"):
        BrokerConfig.embedded({"ottla.log.format": "xml"})


def test_a_key_that_is_set_is_described() -> None:
    config = BrokerConfig.embedded({"ottla.metrics.listener": "127.0.0.1:0"})
    config = config.with_dynamic(dynamic={"ottla.log.scrub.bytes.per.second": "5"})
    described = {entry.name: entry for entry in describe_broker(config) if entry.name.startswith("ottla.")}
    assert {name: (entry.value, entry.is_read_only) for name, entry in described.items()} == {
        "ottla.metrics.listener": ("127.0.0.1:0", True),
        "ottla.log.scrub.bytes.per.second": ("5", False),
    }
    (default,) = describe_cluster_defaults({"ottla.log.scrub.bytes.per.second": "7"})
    assert (default.value, default.is_sensitive) == ("7", False)
