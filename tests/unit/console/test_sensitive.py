"""Which settings are secrets, also if they are set for the first time."""

from __future__ import annotations

import pytest

from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource, ResourceType
from ottla.console.sensitive import is_secret_of_connector, is_secret_setting
from ottla.model.config.broker_keys import BROKER_KEYS

BROKER, TOPIC = ConfigResource(ResourceType.BROKER, "1"), ConfigResource(ResourceType.TOPIC, "orders")


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "listener.name.external.ssl.key.password",
        "listener.name.external.ssl.keystore.key",
        "listener.name.external.scram-sha-512.sasl.jaas.config",
        "listener.name.external.ssl.truststore.certificates",
        "password.encoder.secret",
        "delegation.token.secret.key",
        "sasl.oauthbearer.client.credentials.client.secret",
        # Keys of plug-ins, which the cluster does not know.
        "my.plugin.token",
        "my.plugin.setting",
    ],
)
def test_secrets_of_brokers(name: str) -> None:
    assert is_secret_setting(BROKER, name, None)


def test_every_password_of_a_broker_is_a_secret_and_nothing_else_that_is_known() -> None:
    secret_names = {name for name in BROKER_KEYS if is_secret_setting(BROKER, name, None)}
    assert secret_names == {name for name, key in BROKER_KEYS.items() if key.is_sensitive}


def test_the_name_decides_also_if_the_cluster_says_otherwise() -> None:
    entry = ConfigEntry("my.password", "x", ConfigSource.DYNAMIC_BROKER_CONFIG, False, False, (), None)
    assert is_secret_setting(BROKER, entry.name, entry)
    assert is_secret_setting(TOPIC, "my.api.key", None)
    shown = entry._replace(name="my.setting")
    assert not is_secret_setting(BROKER, shown.name, shown)


def test_settings_of_topics_are_shown() -> None:
    assert not is_secret_setting(TOPIC, "retention.ms", None)
    assert not is_secret_setting(TOPIC, "leader.replication.throttled.replicas", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer.override.sasl.jaas.config", "x"),
        ("database.password", "x"),
        ("consumer.override.ssl.keystore.key", "x"),
        ("http.headers.authorization", "Bearer x"),
        ("azure.account.key", "x"),
        ("signing.pem", "-----BEGIN PRIVATE KEY-----"),
        ("pin", "1234"),
    ],
)
def test_secrets_of_connectors(key: str, value: str) -> None:
    assert is_secret_of_connector(key, value, frozenset({"pin"}))


def test_what_is_no_secret_of_a_connector() -> None:
    assert not is_secret_of_connector("pin", "${file:/secrets:pin}", frozenset({"pin"}))
    assert not is_secret_of_connector("key.converter", "org.apache.kafka.connect.json.JsonConverter")
    assert not is_secret_of_connector("table.name", "orders", frozenset({"pin"}))
