"""Logins with GSSAPI against a real Kerberos realm: our client, aiokafka, kafka-python, and Java's."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import pytest

from ottla.client.admin import AdminClient
from ottla.client.errors import AuthenticationFailed
from ottla.client.kerberos import KerberosLogin
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties
from ottla.model.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.java import ToolServer, unavailable_reason
from tests.support.kerberos import REALM, Realm, missing_reason
from tests.support.raw_client import RawClient
from tests.support.sasl_node import SaslNode

if reason := missing_reason():
    pytest.skip(f"Kerberos: {reason}", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
ALICE, ROBERT, SERVICE = f"alice@{REALM}", f"robert/admin@{REALM}", f"kafka/localhost@{REALM}"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")) as running:
        running.add(ALICE, ROBERT, SERVICE, f"kafka/elsewhere@{REALM}")
        with pytest.MonkeyPatch.context() as environment:
            for name, value in running.environment.items():
                environment.setenv(name, value)
            yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, realm: Realm) -> Iterator[SaslNode]:
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1@$0](robert@.*)s/@.*//U,DEFAULT",
        "listener.name.clients.gssapi.sasl.jaas.config": (
            f'{MODULE} required useKeyTab=true storeKey=true keyTab="{realm.keytab}" principal="{SERVICE}";'
        ),
    }
    node = SaslNode(tmp_path_factory.mktemp("node"), settings)
    node.advertise("localhost")
    with node as running:
        yield running


def settings(node: SaslNode, login: KerberosLogin) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(node.address), login=login, api_timeout_ms=30_000)


def topics(settings: ClientSettings) -> list[str]:
    async def names() -> list[str]:
        async with AdminClient(settings) as admin:
            return await admin.topics.names()

    return asyncio.run(names())


def test_our_client_logs_in_with_keys(node: SaslNode, realm: Realm) -> None:
    login = KerberosLogin("kafka", principal=ALICE, keytab=str(realm.keytab))
    assert "orders" in topics(settings(node, login))


def test_our_client_logs_in_with_the_tickets_of_the_user(node: SaslNode, realm: Realm) -> None:
    realm.log_in(ALICE)
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }
    assert "orders" in topics(settings_from_properties(settings(node, KerberosLogin("x")), properties))


def test_a_rule_names_another_principal(node: SaslNode, realm: Realm) -> None:
    # User:ROBERT has no rights.
    login = KerberosLogin("kafka", principal=ROBERT, keytab=str(realm.keytab))
    assert topics(settings(node, login)) == []


def test_a_ticket_for_another_service_is_refused(node: SaslNode, realm: Realm) -> None:
    login = KerberosLogin("nothing", principal=ALICE, keytab=str(realm.keytab))
    with pytest.raises(AuthenticationFailed, match="no ticket for nothing/localhost"):
        topics(settings(node, login))
    with RawClient(node.address) as client:
        assert client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == ErrorCode.NONE
        other = asyncio.run(KerberosLogin("kafka", principal=ALICE, keytab=str(realm.keytab)).exchange("elsewhere"))
        answer = client.call(SaslAuthenticateRequest(auth_bytes=other.begin()), 2)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Kerberos refuses the client.",
        )


@pytest.mark.parametrize("token", [b"", b"\0" * 100, os.urandom(60_000)])
def test_tokens_that_are_none(node: SaslNode, token: bytes) -> None:
    with RawClient(node.address) as client:
        assert client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == ErrorCode.NONE
        answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.socket.recv(1) == b""


def test_aiokafka_and_kafka_python_log_in(node: SaslNode, realm: Realm) -> None:
    realm.log_in(ALICE)
    common = {
        "bootstrap_servers": node.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(**common, sasl_kerberos_domain_name="localhost") as producer:
            await producer.send_and_wait("orders", b"aiokafka")

    asyncio.run(send())
    producer = KafkaProducer(**common)
    producer.send("orders", b"kafka-python").get(30)
    producer.close()


def test_java_logs_in(node: SaslNode, realm: Realm, tmp_path: Path) -> None:
    if reason := unavailable_reason():
        pytest.skip(f"Java: {reason}")
    file = tmp_path / "alice.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={MODULE} required useKeyTab=true storeKey=true "
        f'keyTab="{realm.keytab}" principal="{ALICE}";\n'
    )
    with ToolServer(options=[f"-Djava.security.krb5.conf={realm.configuration}"]) as java:
        listed = java.run("TopicCommand", "--bootstrap-server", node.address, "--command-config", str(file), "--list")
    assert listed.status == 0, listed.stdout + listed.stderr
    assert "orders" in listed.stdout.split()
    assert "secrets" not in listed.stdout.split()
