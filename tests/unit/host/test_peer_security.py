"""How a node is a client of other nodes, by the settings of its listeners."""

from __future__ import annotations

import pytest

from ottla.host.peer_security import security_between_brokers, security_of_controllers
from ottla.model.config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.tls.authority import new_authority

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
BROKERS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
BETWEEN_BROKERS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    BROKERS: f'{MODULE} required username="node" password="node-secret" user_node="node-secret";',
}


def test_plain_text_needs_nothing() -> None:
    config = BrokerConfig.embedded()
    assert security_between_brokers(config, None) is None
    assert security_of_controllers(config, None) is None


def test_a_login_between_brokers() -> None:
    config = BrokerConfig.embedded(BETWEEN_BROKERS)
    security = security_between_brokers(config, None)
    assert security is not None
    assert security.context is None
    assert security.login is not None
    exchange = security.login.new_exchange()
    assert exchange.begin() == b"\0node\0node-secret"
    assert security.login.evaluate(exchange, b"").result() is None
    assert security_of_controllers(config, None) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({BROKERS: f"{MODULE} required;"}, "must have username and password"),
        ({BROKERS: "nonsense"}, "cannot be read"),
        (
            {"sasl.mechanism.inter.broker.protocol": "GSSAPI", "sasl.enabled.mechanisms": "GSSAPI"},
            "GSSAPI, which is not available between nodes",
        ),
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256", "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "so listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config must have",
        ),
    ],
)
def test_logins_that_cannot_be(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        security_between_brokers(BrokerConfig.embedded({**BETWEEN_BROKERS, **changes}), None)
    assert words in raised.value.message
    assert "secret" not in raised.value.message


def test_certificates_of_controllers() -> None:
    authority = new_authority()
    pair = authority.for_node("localhost")
    given = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "listener.name.controller.ssl.keystore.key": pair.key.replace("\n", " "),
        "listener.name.controller.ssl.keystore.certificate.chain": pair.certificates.replace("\n", " "),
    }
    security = security_of_controllers(BrokerConfig.embedded(given), None)
    assert security is not None
    assert security.context is not None
    assert security.context.check_hostname
    assert security.login is None
    with pytest.raises(ConfigError, match="cannot use TLS as a client of the listener CONTROLLER"):
        security_of_controllers(BrokerConfig.embedded({**given, "ssl.truststore.location": "/nowhere"}), None)
