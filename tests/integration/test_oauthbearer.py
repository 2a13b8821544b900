"""Logins with OAUTHBEARER: third-party clients and our own, with signed tokens of an identity provider."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider

from ottla.client.admin import AdminClient
from ottla.client.errors import AuthenticationFailed
from ottla.client.oauth.allowed import ALLOWED_FILES, ALLOWED_URLS
from ottla.client.oauth.sources import from_callable
from ottla.client.oauth.tokens import OAuthLogin
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties
from ottla.model.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider
from tests.support.raw_client import RawClient
from tests.support.sasl_node import SaslNode

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as running:
        yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Iterator[SaslNode]:
    keys = f"{provider.url}/keys"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.clients.oauthbearer.sasl.oauthbearer.expected.audience": f"other,{AUDIENCE}",
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
    }
    with SaslNode(tmp_path_factory.mktemp("node"), settings) as running:
        yield running


def client_settings(node: SaslNode, login: OAuthLogin) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(node.address), login=login, api_timeout_ms=30_000)


def topics(settings: ClientSettings) -> list[str]:
    async def names() -> list[str]:
        async with AdminClient(settings) as admin:
            return await admin.topics.names()

    return asyncio.run(names())


def test_librdkafka_logs_in_with_a_token_of_its_program(node: SaslNode, provider: IdentityProvider) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": node.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _config: (provider.token(), time.time() + 600),
        }
    )
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def test_librdkafka_gets_its_token_from_the_endpoint(node: SaslNode, provider: IdentityProvider) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": node.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        }
    )
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def test_aiokafka_and_kafka_python_log_in(node: SaslNode, provider: IdentityProvider) -> None:
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return provider.token()

    class OtherTokens(KafkaPythonTokenProvider):
        def token(self) -> str:
            return provider.token()

    common = {
        "bootstrap_servers": node.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(**common, sasl_oauth_token_provider=Tokens()) as producer:
            await producer.send_and_wait("orders", b"aiokafka")

    asyncio.run(send())
    producer = KafkaProducer(**common, sasl_oauth_token_provider=OtherTokens())
    producer.send("orders", b"kafka-python").get(30)
    producer.close()


def test_our_client_gets_tokens_from_a_function(node: SaslNode, provider: IdentityProvider) -> None:
    assert "orders" in topics(client_settings(node, OAuthLogin(from_callable(provider.token))))

    async def token() -> str:
        return provider.token("mallory")

    # Another user has no rights.
    assert topics(client_settings(node, OAuthLogin(from_callable(token)))) == []


def properties(node: SaslNode, **overrides: str) -> ClientSettings:
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **overrides}
    return settings_from_properties(ClientSettings(bootstrap_servers=parse_bootstrap(node.address)), config)


def test_our_client_gets_tokens_from_the_endpoint(
    node: SaslNode, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{provider.url}/token"
    monkeypatch.setenv(ALLOWED_URLS, url)
    named = {"sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.client.credentials.client.id": CLIENT}
    secret = "sasl.oauthbearer.client.credentials.client.secret"
    assert "orders" in topics(properties(node, **named, **{secret: SECRET}))
    with pytest.raises(AuthenticationFailed, match="refuses the client alice-client with status 401") as refused:
        topics(properties(node, **named, **{secret: "not-this-one"}))
    assert "not-this-one" not in str(refused.value)


def test_our_client_reads_tokens_from_a_file(
    node: SaslNode, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(provider.token() + "\n")
    monkeypatch.setenv(ALLOWED_FILES, str(file))
    assert "orders" in topics(properties(node, **{"sasl.oauthbearer.token.endpoint.url": file.as_uri()}))


def test_our_client_logs_in_again_with_a_new_token_before_the_old_one_expires(
    node: SaslNode, provider: IdentityProvider
) -> None:
    token_times: list[float] = []

    def token() -> str:
        token_times.append(time.monotonic())
        return provider.token(exp=time.time() + 1.5)

    async def work() -> None:
        async with AdminClient(client_settings(node, OAuthLogin(from_callable(token)))) as admin:
            connection = await admin.connections.any_connection()
            while len(token_times) < 3:
                assert "orders" in await admin.topics.names()
                await asyncio.sleep(0.02)
            assert not connection.closed

    asyncio.run(asyncio.wait_for(work(), 60))


def log_in(node: SaslNode, token: str) -> Any:
    """The answer to the last message of a login."""
    with RawClient(node.address) as client:
        assert client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == ErrorCode.NONE
        first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        answer = client.call(SaslAuthenticateRequest(auth_bytes=first), 2)
        if answer.error_code or not answer.auth_bytes:
            return answer
        assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}'
        return client.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)


def test_a_session_ends_with_its_token(node: SaslNode, provider: IdentityProvider) -> None:
    answer = log_in(node, provider.token(exp=time.time() + 100))
    assert answer.error_code == ErrorCode.NONE
    assert 90_000 < answer.session_lifetime_ms <= 100_000


def test_a_refused_token_is_refused_in_two_steps_without_its_content(
    node: SaslNode, provider: IdentityProvider
) -> None:
    answer = log_in(node, provider.token("very-secret-user", iss="https://elsewhere.example"))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "The token comes from another issuer."
    output = (node.node.directory / "output.txt").read_text()
    assert "very-secret-user" not in output
    assert "eyJ" not in output


def test_a_new_key_of_the_provider_is_fetched_when_a_token_names_it(node: SaslNode, provider: IdentityProvider) -> None:
    provider.rotate("second", keep=True)
    fetched = provider.asked.count("/keys")
    assert log_in(node, provider.token()).error_code == ErrorCode.NONE
    assert provider.asked.count("/keys") == fetched + 1
    # Tokens with unknown keys do not make the node fetch the keys again and again.
    for number in range(5):
        answer = log_in(node, provider.token(headers={"kid": f"unknown-{number}"}))
        assert answer.error_message == "The token is signed with a key that is not known."
    assert provider.asked.count("/keys") == fetched + 1
