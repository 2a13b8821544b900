"""How a node is a client of other nodes, by the settings of its listeners."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.host.peer_logins import TokenPeerLogin
from ottla.host.peer_security import security_between_brokers, security_of_controllers
from ottla.model.config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.tls.authority import new_authority
from tests.support.identity_provider import CLIENT, SECRET, IdentityProvider

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
    exchange = security.login.new_exchange("other").result()
    assert exchange.begin() == b"\0node\0node-secret"
    assert security.login.evaluate(exchange, b"").result() is None
    assert security_of_controllers(config, None) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({BROKERS: f"{MODULE} required;"}, "must have username and password"),
        ({BROKERS: "nonsense"}, "cannot be read"),
        (
            {"sasl.mechanism.inter.broker.protocol": "NTLM", "sasl.enabled.mechanisms": "NTLM"},
            "NTLM, which is not available; use one of",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.login.callback.handler.class": "some.Class"},
            "which has no meaning for PLAIN",
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


TOKENS = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer."
BEARER = {
    **BETWEEN_BROKERS,
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}
BEARER_LOGIN = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URLS, FILES = (f"org.apache.kafka.sasl.oauthbearer.allowed.{kind}" for kind in ("urls", "files"))
ENDPOINT = "https://identity.example/token"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "must name a token endpoint or a file"),
        ({BEARER_LOGIN: f'{BEARER_MODULE} unsecuredLoginNumberClaim_a="x";'}, "is not a number"),
        (
            {BEARER_LOGIN: f'{BEARER_MODULE} unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="x";'},
            "that is no number",
        ),
        ({TOKENS + "token.endpoint.url": ENDPOINT}, "does not allow"),
        ({TOKENS + "token.endpoint.url": "file:///etc/passwd", FILES: "/token"}, "does not allow"),
        ({TOKENS + "token.endpoint.url": "ldap://host/x"}, "must begin with https:"),
        ({TOKENS + "token.endpoint.url": ENDPOINT, URLS: ENDPOINT}, "needs a client's id and secret"),
        ({TOKENS.replace("sasl.oauthbearer.", "sasl.login.callback.handler.class"): "a.B"}, "cannot be loaded"),
    ],
)
def test_tokens_that_cannot_be(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        security_between_brokers(BrokerConfig.embedded({**BEARER, **changes}), None)
    assert words in raised.value.message


def test_a_login_with_a_token_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    config = BrokerConfig.embedded({**BEARER, TOKENS + "token.endpoint.url": file.as_uri(), FILES: str(file)})
    security = security_between_brokers(config, None)
    assert security is not None
    assert security.login is not None
    assert "cannot be read" in str(security.login.new_exchange("other").error)
    file.write_text("abc\n")
    exchange = security.login.new_exchange("other").result()
    assert exchange.begin() == b"n,,\x01auth=Bearer abc\x01\x01"
    assert security.login.evaluate(exchange, b"").result() is None
    assert exchange.is_complete


def test_the_client_of_a_token_endpoint() -> None:
    with IdentityProvider("ES256").serving() as provider:
        url = f"{provider.url}/token"
        ids = {
            TOKENS + "client.credentials.client.id": CLIENT,
            TOKENS + "client.credentials.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.login.refresh.window.factor": "0.5",
        }
        config = BrokerConfig.embedded({**BEARER, TOKENS + "token.endpoint.url": url, URLS: url, **ids})
        security = security_between_brokers(config, None)
        assert security is not None
        assert security.login is not None
        assert isinstance(security.login, TokenPeerLogin)
        assert security.login.user == CLIENT
        assert security.login._tokens._window_factor == 0.5
        assert b"auth=Bearer ey" in security.login.new_exchange("other").result().begin()
        changed = {**ids, TOKENS + "client.credentials.client.secret": "wrong"}
        config = BrokerConfig.embedded({**BEARER, TOKENS + "token.endpoint.url": url, URLS: url, **changed})
        security.follow(config)
        assert security.login is not None
        assert "with status 401" in str(security.login.new_exchange("other").error)


def test_certificates_of_controllers() -> None:
    authority = new_authority()
    pair = authority.for_node("localhost")
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "listener.name.controller.ssl.keystore.key": pair.key.replace("\n", " "),
        "listener.name.controller.ssl.keystore.certificate.chain": pair.certificates.replace("\n", " "),
    }
    security = security_of_controllers(BrokerConfig.embedded(properties), None)
    assert security is not None
    assert security.context is not None
    assert security.context.check_hostname
    assert security.login is None
    with pytest.raises(ConfigError, match="cannot use TLS as a client of the listener CONTROLLER"):
        security_of_controllers(BrokerConfig.embedded({**properties, "ssl.truststore.location": "/nowhere"}), None)
