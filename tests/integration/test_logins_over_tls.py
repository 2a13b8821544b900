"""SASL_SSL: every mechanism with every client in Python; `test_sasl` and `test_oauthbearer` do the same without TLS."""

from __future__ import annotations

import asyncio
import ssl
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
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.sasl_node import MECHANISMS, PASSWORD, PLAIN, SCRAM, SaslNode
from tests.support.secured import Certificates

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider


class Secured:
    """A node whose clients log in over TLS. The certificates are those of the node."""

    def __init__(self, directory: Path, provider: IdentityProvider) -> None:
        self.provider = provider
        self.certificates = Certificates(directory / "certificates")
        keys = f"{provider.url}/keys"
        settings = {
            **self.certificates.server_settings(),
            "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
            "delegation.token.secret.key": "a-secret-of-all-nodes",
        }
        self.node = SaslNode(directory / "node", settings)
        protocols = self.node.node.settings["listener.security.protocol.map"]
        self.node.node.settings["listener.security.protocol.map"] = protocols.replace("SASL_PLAINTEXT", "SASL_SSL")

    def python_client(self, mechanism: str) -> dict[str, Any]:
        """The settings that aiokafka and kafka-python have in common."""
        config = {
            "bootstrap_servers": self.node.address,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=str(self.certificates.trusted)),
            "sasl_mechanism": mechanism,
        }
        if mechanism != "OAUTHBEARER":
            config |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
        return config

    def own_client(self, mechanism: str, login: str = f'username="alice" password="{PASSWORD}"') -> ClientSettings:
        properties: dict[str, Any] = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            **self.certificates.client_properties(with_key=False),
        }
        if mechanism == "OAUTHBEARER":
            properties["sasl.login.callback.handler.class"] = self.provider.token
        else:
            properties["sasl.jaas.config"] = f"{PLAIN if mechanism == 'PLAIN' else SCRAM} required {login};"
        return settings_from_properties(
            ClientSettings(bootstrap_servers=parse_bootstrap(self.node.address), api_timeout_ms=30_000), properties
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with IdentityProvider().serving() as provider:
        running = Secured(tmp_path_factory.mktemp("secured"), provider)
        with running.node:
            yield running


@pytest.fixture(params=[*MECHANISMS, "OAUTHBEARER"])
def mechanism(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_librdkafka(secured: Secured, mechanism: str) -> None:
    errors: list[Any] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": secured.node.address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.certificates.trusted),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _config: (secured.provider.token(), time.time() + 600)
    else:
        settings |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def test_aiokafka(secured: Secured, mechanism: str) -> None:
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return secured.provider.token()

    async def send() -> None:
        token_provider = {"sasl_oauth_token_provider": Tokens()} if mechanism == "OAUTHBEARER" else {}
        async with aiokafka.AIOKafkaProducer(**secured.python_client(mechanism), **token_provider) as producer:
            await producer.send_and_wait("orders", b"aiokafka")

    asyncio.run(send())


def test_kafka_python(secured: Secured, mechanism: str) -> None:
    class Tokens(KafkaPythonTokenProvider):
        def token(self) -> str:
            return secured.provider.token()

    token_provider = {"sasl_oauth_token_provider": Tokens()} if mechanism == "OAUTHBEARER" else {}
    producer = KafkaProducer(**secured.python_client(mechanism), **token_provider)
    producer.send("orders", b"kafka-python").get(30)
    producer.close()


def test_our_own_client(secured: Secured, mechanism: str) -> None:
    async def send() -> None:
        async with Producer(secured.own_client(mechanism)) as producer:
            await (await producer.send("orders", b"ours"))

    asyncio.run(send())


@pytest.mark.parametrize("scram", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_delegation_token(secured: Secured, scram: str) -> None:
    """The token is created over an encrypted connection and used for another."""

    async def made_and_used() -> list[str]:
        async with AdminClient(secured.own_client("PLAIN")) as admin:
            token = await admin.tokens.create()
        login = f'username="{token.token_id}" password="{token.password}" tokenauth="true"'
        async with AdminClient(secured.own_client(scram, login)) as admin:
            return await admin.topics.names()

    assert "orders" in asyncio.run(made_and_used())
