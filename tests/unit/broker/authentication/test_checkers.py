"""Which settings a SASL listener needs, what is refused at the start, and classes that check credentials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.authentication.checkers import Checkers
from ottla.broker.authentication.listener_settings import ListenerSettings
from ottla.broker.authentication.settings import sasl_settings
from ottla.host.key_documents import read_key_document
from ottla.model.config import BrokerConfig
from ottla.model.config.keys import ConfigError
from ottla.sasl.exchange import SaslError
from ottla.sasl.oauthbearer import BearerToken, OAuthBearerServer, TokenRefused
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import ScramClient, ScramKeys, ScramServer, scram_keys
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.virtual_world import VirtualWorld

CLASS = "sasl.server.callback.handler.class"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
HERE = __name__
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,CLIENTS://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


def config(settings: Mapping[str, str], **layers: Any) -> BrokerConfig:
    embedded = BrokerConfig.embedded({**LISTENERS, **settings})
    return embedded.with_dynamic(**layers) if layers else embedded


def checkers(settings: Mapping[str, str], mechanism: str, **layers: Any) -> Checkers:
    world = VirtualWorld(immediate_workers=True).world
    return Checkers(config(settings, **layers), "CLIENTS", (mechanism,), world, read_key_document)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(IdentityProvider("ES256").document)
    return path


def oauth(keys: Path) -> dict[str, str]:
    return {
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.clock.skew.seconds": "10",
        "sasl.oauthbearer.sub.claim.name": "sub",
        "sasl.oauthbearer.scope.claim.name": "scope",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "10",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "100",
        "sasl.login.read.timeout.ms": "500",
        "org.apache.kafka.sasl.oauthbearer.allowed.files": str(keys),
    }


def test_keys_of_a_file(keys: Path) -> None:
    assert checkers(oauth(keys), "OAUTHBEARER").validate_token is not None


@pytest.mark.parametrize(
    "missing",
    [
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.expected.audience",
        "org.apache.kafka.sasl.oauthbearer.allowed.files",
    ],
)
def test_a_node_does_not_start_without_what_makes_tokens_trustworthy(keys: Path, missing: str) -> None:
    settings = oauth(keys)
    del settings[missing]
    with pytest.raises(ConfigError, match=missing.replace(".", r"\.")):
        checkers(settings, "OAUTHBEARER")


@pytest.mark.parametrize("url", ["ftp://host/keys", "jar:file:/keys", "http://127.0.0.1:1/keys", "/etc/passwd", "x"])
def test_only_addresses_that_are_allowed_are_read(keys: Path, url: str) -> None:
    settings = {**oauth(keys), "sasl.oauthbearer.jwks.endpoint.url": url}
    with pytest.raises(ConfigError, match=r"allow|must begin"):
        checkers(settings, "OAUTHBEARER")


def test_a_node_does_not_start_with_a_document_that_has_no_keys(keys: Path) -> None:
    for content in (b"", b'{"keys": []}'):
        keys.write_bytes(content)
        with pytest.raises(ConfigError, match="no keys can be read"):
            checkers(oauth(keys), "OAUTHBEARER")
    keys.unlink()
    with pytest.raises(ConfigError, match="no keys can be read"):
        checkers(oauth(keys), "OAUTHBEARER")


def test_unsecured_tokens_must_be_asked_for() -> None:
    with pytest.raises(ConfigError):
        checkers({}, "OAUTHBEARER")
    unsecured = {f"listener.name.clients.oauthbearer.{CLASS}": UNSECURED}
    assert checkers(unsecured, "OAUTHBEARER").validate_token is not None
    with pytest.raises(ConfigError, match="is a class for OAUTHBEARER"):
        checkers({f"listener.name.clients.plain.{CLASS}": UNSECURED}, "PLAIN")


# -- classes of Python ---------------------------------------------------------------------------------------------


class Directory:
    """Checks the credentials of every mechanism."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.suffix = options.get("suffix", "")

    def check_password(self, user: str, password: str) -> bool:
        return password == user + self.suffix

    def find_credential(self, user: str) -> ScramKeys | None:
        return scram_keys("SCRAM-SHA-256", f"{user}!", salt=b"s", iterations=4096) if user == "alice" else None

    def validate_token(self, token: str) -> BearerToken:
        if token != "right":
            raise TokenRefused("wrong")
        return BearerToken("alice", 1)


class Useless:
    def __init__(self, options: Mapping[str, str]) -> None:
        """Has no method."""


def test_a_class_checks_passwords_with_its_options() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        f"listener.name.clients.plain.{CLASS}": f"{HERE}.Directory",
        "listener.name.clients.plain.sasl.jaas.config": f'{module} required suffix="-secret";',
    }
    check = checkers(settings, "PLAIN").check_password
    assert check is not None
    exchange = PlainServer(check)
    answer: Any = exchange.evaluate(b"\0alice\0alice-secret")
    assert (answer.result(), exchange.user) == (b"", "alice")
    refused: Any = PlainServer(check).evaluate(b"\0alice\0wrong")
    assert isinstance(refused.error, SaslError)
    # Users in the configuration are not needed then.
    named = {**settings, "sasl.enabled.mechanisms": "PLAIN"}
    assert sasl_settings(config(named), "CLIENTS", is_plain_elsewhere=True).plain_users == {}


def test_a_class_finds_credentials_of_scram() -> None:
    find = checkers({f"listener.name.clients.{CLASS}": f"{HERE}.Directory"}, "SCRAM-SHA-256").find_credential
    client, server = (
        ScramClient("SCRAM-SHA-256", "alice", "alice!"),
        ScramServer("SCRAM-SHA-256", find["SCRAM-SHA-256"]),
    )
    first: Any = server.evaluate(client.begin())
    final = client.evaluate(first.result())
    assert final is not None
    server.evaluate(final)
    assert (server.is_complete, server.user) == (True, "alice")


def test_a_class_validates_tokens() -> None:
    validate = checkers({CLASS: f"{HERE}.Directory"}, "OAUTHBEARER").validate_token
    assert validate is not None
    exchange = OAuthBearerServer(validate)
    answer: Any = exchange.evaluate(b"n,,\x01auth=Bearer right\x01\x01")
    assert (answer.result(), exchange.user) == (b"", "alice")
    refused: Any = OAuthBearerServer(validate).evaluate(b"n,,\x01auth=Bearer wrong\x01\x01")
    assert refused.result() == b'{"status":"invalid_token"}'


@pytest.mark.parametrize(
    "name", ["no.such.Class", f"{HERE}.Nothing", f"{HERE}.HERE", f"{HERE}.Useless", "com.sun.security.Module", "x"]
)
def test_a_class_that_cannot_be_used_stops_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=CLASS.replace(".", r"\.")):
        checkers({f"listener.name.clients.plain.{CLASS}": name}, "PLAIN")


def test_the_names_of_kafkas_classes_load_nothing() -> None:
    plain = "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"
    assert checkers({CLASS: plain}, "PLAIN").check_password is None
    scram = "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler"
    assert checkers({CLASS: scram}, "SCRAM-SHA-512").find_credential == {}


def test_no_class_and_no_identity_provider_comes_from_settings_that_clients_change(keys: Path) -> None:
    dynamic = {f"listener.name.clients.plain.{CLASS}": f"{HERE}.Directory"}
    assert checkers({}, "PLAIN", dynamic=dynamic).check_password is None
    with pytest.raises(ConfigError):
        checkers({}, "OAUTHBEARER", dynamic=oauth(keys))


def test_the_most_specific_value_counts() -> None:
    properties = {
        "connections.max.reauth.ms": "1",
        "listener.name.clients.connections.max.reauth.ms": "2",
        "listener.name.clients.scram-sha-256.connections.max.reauth.ms": "3",
    }
    settings = ListenerSettings(config(properties), "CLIENTS")
    assert settings.get("connections.max.reauth.ms", "SCRAM-SHA-256") == 3
    assert settings.get("connections.max.reauth.ms", "PLAIN") == 2
    assert ListenerSettings(config(properties), "OTHER").get("connections.max.reauth.ms", "PLAIN") == 1
