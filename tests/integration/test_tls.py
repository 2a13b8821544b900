"""Encrypted listeners with third-party clients."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, settings_from_properties
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition as TopicId
from ottla.wire.messages.metadata import MetadataRequest
from tests.support.secured import Certificates, SecuredNode

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LISTENERS = {"OPEN": "SSL", "STRICT": "SSL", "LOGIN": "SASL_SSL"}
# Listeners with certificates that clients reject.
ODD_LISTENERS = {"ELSEWHERE": "SSL", "EXPIRED": "SSL"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    elsewhere = certificates.write("elsewhere", certificates.authority.for_node("elsewhere.example"))
    expired = certificates.write("expired", certificates.authority.for_node("localhost", days=-1))
    settings = {
        **certificates.server_settings(),
        "listener.name.elsewhere.ssl.keystore.location": str(elsewhere),
        "listener.name.expired.ssl.keystore.location": str(expired),
        "listener.name.strict.ssl.client.auth": "required",
        "listener.name.strict.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/U, DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:ALICE;User:bob",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_bob="bob-secret";',
        "connection.failed.authentication.delay.ms": "0",
    }
    with SecuredNode(tmp_path_factory.mktemp("node"), {**LISTENERS, **ODD_LISTENERS}, settings) as running:
        admin = AdminClient({"bootstrap.servers": running.node.bootstrap})
        for future in admin.create_topics([NewTopic("orders", 1, 1)]).values():
            future.result(30)
        yield running


def librdkafka(node: SecuredNode, certificates: Certificates, listener: str, **overrides: Any) -> dict[str, Any]:
    config = {
        "bootstrap.servers": node.address(listener),
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": str(certificates.trusted),
        **overrides,
    }
    if listener == "STRICT":
        config["ssl.key.location"] = str(certificates.client_key)
        config["ssl.certificate.location"] = str(certificates.client_certificate)
    if listener == "LOGIN":
        config |= {"sasl.mechanism": "PLAIN", "sasl.username": "bob", "sasl.password": "bob-secret"}
    return config


@pytest.mark.parametrize("listener", LISTENERS)
def test_librdkafka_writes_and_reads(node: SecuredNode, certificates: Certificates, listener: str) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(librdkafka(node, certificates, listener))
    values = [f"{listener}-{number}".encode() + bytes(3000) for number in range(500)]
    for value in values:
        producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert set(errors) == {None}
    group = {"group.id": listener, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(librdkafka(node, certificates, listener, **group))
    consumer.subscribe(["orders"])
    wanted = set(values)
    while wanted:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        wanted.discard(message.value())
    consumer.close()


def test_the_certificate_is_the_principal(node: SecuredNode, certificates: Certificates) -> None:
    """Only User:ALICE is a super user, and the topic has no ACL (`ssl.principal.mapping.rules`)."""
    certificates.write("mallory", certificates.authority.for_client("mallory"))
    config = librdkafka(node, certificates, "STRICT")
    config["ssl.key.location"] = str(certificates.directory / "mallory.key")
    config["ssl.certificate.location"] = str(certificates.directory / "mallory.crt")
    errors: list[Any] = []
    producer = confluent_kafka.Producer(config)
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(30) == 0
    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("listener", LISTENERS)
def test_aiokafka_and_kafka_python(node: SecuredNode, certificates: Certificates, listener: str) -> None:
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    if listener == "STRICT":
        context.load_cert_chain(certificates.client)
    settings: dict[str, Any] = {
        "bootstrap_servers": node.address(listener),
        "security_protocol": LISTENERS[listener],
        "ssl_context": context,
    }
    if listener == "LOGIN":
        settings |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "bob", "sasl_plain_password": "bob-secret"}
    large = bytes(900_000)

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            sent = await producer.send_and_wait("orders", large)
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        async with consumer:
            partition = aiokafka.TopicPartition("orders", 0)
            consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            assert (await consumer.getone()).value == large

    asyncio.run(send())
    producer = KafkaProducer(**settings)
    offset = producer.send("orders", b"kafka-python").get(30).offset
    producer.close()
    consumer = KafkaConsumer(**settings)
    consumer.assign([TopicPartition("orders", 0)])
    consumer.seek(TopicPartition("orders", 0), offset)
    assert next(iter(consumer)).value == b"kafka-python"
    consumer.close()


# -- our own client ------------------------------------------------------------------------------------------------


def own_properties(node: SecuredNode, certificates: Certificates, listener: str, **changes: str | None) -> Any:
    properties: dict[str, str | None] = {
        "security.protocol": LISTENERS.get(listener, "SSL"),
        "bootstrap.servers": node.address(listener) if listener in node.ports else node.node.bootstrap,
        "default.api.timeout.ms": "20000",
        **certificates.client_properties(with_key=listener == "STRICT"),
    }
    if listener == "LOGIN":
        properties |= {
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username=bob password="bob-secret";',
        }
    properties |= {name.replace("_", "."): value for name, value in changes.items()}
    return {name: value for name, value in properties.items() if value is not None}


@pytest.mark.parametrize("listener", LISTENERS)
def test_our_own_client_writes_and_reads(node: SecuredNode, certificates: Certificates, listener: str) -> None:
    properties = own_properties(node, certificates, listener)
    settings = settings_from_properties(ClientSettings(bootstrap_servers=()), properties)
    large = bytes(800_000)

    async def talk() -> None:
        async with Producer(settings) as producer:
            sent = await producer.send_and_wait("orders", large)
        async with Consumer(settings, ConsumerSettings()) as consumer:
            partition = TopicId("orders", 0)
            await consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            assert (await consumer.poll(20_000))[0].value == large

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("listener", "changes", "words"),
    [
        ("OPEN", {"security_protocol": "PLAINTEXT"}, "security.protocol is that of the listener, SSL"),
        ("PLAINTEXT", {"security_protocol": "SSL"}, "check that the port is a listener with SSL or SASL_SSL"),
        ("OPEN", {"ssl_truststore_location": None, "ssl_truststore_type": None}, "set ssl.truststore.location"),
        ("STRICT", {"ssl_keystore_location": None, "ssl_keystore_type": None}, "demands a certificate of its clients"),
        ("OPEN", {"ssl_truststore_location": "/nowhere.pem"}, "/nowhere.pem, which cannot be read: No such file"),
        ("OPEN", {"ssl_truststore_type": "PKCS12"}, "is in PEM: set ssl.truststore.type=PEM"),
        ("OPEN", {"security_protocol": "TLS"}, "security.protocol=TLS is unknown"),
        ("ELSEWHERE", {}, "it is not for localhost; connect by a name that it has"),
        ("EXPIRED", {}, "it has expired; renew it on the node"),
        ("LOGIN", {"security_protocol": "SSL"}, "closed the connection"),
    ],
)
def test_our_own_client_says_what_is_wrong(
    node: SecuredNode, certificates: Certificates, listener: str, changes: dict[str, str | None], words: str
) -> None:
    with pytest.raises(ClientError) as raised:
        ask_for_metadata(own_properties(node, certificates, listener, **changes))
    assert words in str(raised.value)


def ask_for_metadata(properties: dict[str, str]) -> None:
    settings = settings_from_properties(ClientSettings(bootstrap_servers=()), properties)

    async def ask() -> None:
        cluster = Cluster(settings)
        try:
            connection = await cluster.connection(settings.bootstrap_servers[0])
            await connection.ask(MetadataRequest(topics=[]), timeout_ms=20_000)
        finally:
            await cluster.close()

    asyncio.run(ask())


def test_a_client_that_does_not_check_names_accepts_any(node: SecuredNode, certificates: Certificates) -> None:
    ask_for_metadata(own_properties(node, certificates, "ELSEWHERE", ssl_endpoint_identification_algorithm=""))


def test_our_own_commands_use_tls(node: SecuredNode, certificates: Certificates, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    properties = own_properties(node, certificates, "STRICT")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    program = str(Path(sys.executable).parent / "ottla")
    options = ["--bootstrap-server", node.address("STRICT"), "--command-config", str(file)]
    completed = subprocess.run([program, "topics", "--list", *options], capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr
    assert "orders" in completed.stdout


def test_the_client_of_spark_tasks(node: SecuredNode, certificates: Certificates) -> None:
    pytest.importorskip("pyarrow")
    from ottla.spark.client import WaitingClient
    from ottla.spark.options import client_settings, without_prefix

    options = {f"kafka.{name}": text for name, text in own_properties(node, certificates, "STRICT").items()}
    client = WaitingClient(client_settings(without_prefix(options)))
    try:
        assert "orders" in client.run(client.cluster.refresh(["orders"])).topics
    finally:
        client.close()


# -- hostile clients -----------------------------------------------------------------------------------------------


def ask_over_tls(node: SecuredNode, certificates: Certificates, listener: str = "OPEN") -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    raw = socket.create_connection(("127.0.0.1", node.ports[listener]), timeout=30)
    return context.wrap_socket(raw, server_hostname="localhost")


def wait_for_output(node: SecuredNode, words: str) -> None:
    deadline = time.monotonic() + 30
    while words not in node.output:
        assert time.monotonic() < deadline, node.output[-2000:]
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x00\x00\x00\x10" + bytes(16), "the client does not speak TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client does not speak TLS"),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "the TLS handshake failed"),
    ],
)
def test_garbage_instead_of_a_handshake(node: SecuredNode, data: bytes, words: str) -> None:
    with socket.create_connection(("127.0.0.1", node.ports["OPEN"]), timeout=30) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass
    wait_for_output(node, words)


def test_a_truncated_record_and_a_broken_one_end_the_connection_alone(
    node: SecuredNode, certificates: Certificates
) -> None:
    honest = ask_over_tls(node, certificates)
    for data in (b"\x17\x03\x03\x40\x00abc", b"\x17\x03\x03\x00\x20" + bytes(32), b"\x17\x03\x03\xff\xff" + bytes(64)):
        encrypted = ask_over_tls(node, certificates)
        raw = socket.socket(fileno=os.dup(encrypted.fileno()))
        raw.settimeout(30)
        with raw, suppress(OSError):
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
        encrypted.close()
    honest.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
    assert honest.recv(8)[4:] == struct.pack(">i", 7)
    honest.close()


def test_a_client_cannot_renegotiate(node: SecuredNode, certificates: Certificates) -> None:
    """OpenSSL's client requests a new handshake when it reads a line `R`."""
    command = ["openssl", "s_client", "-tls1_2", "-connect", f"127.0.0.1:{node.ports['OPEN']}"]
    command += ["-CAfile", str(certificates.trusted)]
    completed = subprocess.run(command, input="R\n", capture_output=True, text=True, timeout=60)
    assert "RENEGOTIATING" in completed.stderr
    assert "no renegotiation" in completed.stderr


def test_no_secret_is_logged(node: SecuredNode, certificates: Certificates) -> None:
    assert "bob-secret" not in node.output
    assert "PRIVATE KEY" not in node.output
