"""Logins over SASL with third-party clients, and the ACLs of their principals."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from ottla.model.errors import ErrorCode
from ottla.sasl.scram import ScramClient
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.sasl_node import MECHANISMS, PASSWORD, SaslNode, librdkafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    with SaslNode(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_logs_in_writes_and_reads(node: SaslNode, mechanism: str) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(librdkafka(node, mechanism))
    producer.produce("orders", mechanism.encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]
    group = {"group.id": "workers", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(librdkafka(node, mechanism, **group))
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    values = []
    while mechanism.encode() not in values:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        values.append(message.value())
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_and_kafka_python_log_in(node: SaslNode, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": node.address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("orders", b"aiokafka")

    asyncio.run(send())
    producer = KafkaProducer(**settings)
    producer.send("orders", b"kafka-python").get(30)
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(node: SaslNode, mechanism: str) -> None:
    errors: list[str] = []
    producer = confluent_kafka.Producer(
        librdkafka(node, mechanism, "wrong", error_cb=lambda error: errors.append(error.name()))
    )
    while "_AUTHENTICATION" not in errors:
        producer.poll(0.1)


def test_what_acls_forbid_is_refused(node: SaslNode) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(librdkafka(node, "PLAIN"))
    producer.produce("secrets", b"x", on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(30) == 0
    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    visible = AdminClient(librdkafka(node, "PLAIN")).list_topics(timeout=30).topics
    assert "orders" in visible
    assert "secrets" not in visible


def command(node: SaslNode, directory: Path, *arguments: str, password: str = PASSWORD, stdin: str = "") -> Any:
    """Runs a command of `ottla` with a properties file of Kafka's tools."""
    properties = directory / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="alice" password="{password}";\n'
    )
    program = str(Path(sys.executable).parent / "ottla")
    options = ["--bootstrap-server", node.address, "--command-config", str(properties)]
    return subprocess.run([program, *arguments, *options], input=stdin, capture_output=True, text=True, timeout=60)


def test_our_own_commands_log_in(node: SaslNode, tmp_path: Path) -> None:
    listed = command(node, tmp_path, "topics", "--list")
    assert listed.returncode == 0, listed.stderr
    assert "orders" in listed.stdout
    assert "secrets" not in listed.stdout


def test_our_own_commands_say_why_a_login_failed(node: SaslNode, tmp_path: Path) -> None:
    listed = command(node, tmp_path, "topics", "--list", password="not-this-one")
    assert listed.returncode == 1
    assert "refused the login of alice with SCRAM-SHA-512" in listed.stderr
    assert "not-this-one" not in listed.stderr
    assert "Traceback" not in listed.stderr


# -- raw requests --------------------------------------------------------------------------------------------------


def log_in(client: RawClient, token: bytes, mechanism: str = "PLAIN") -> Any:
    assert client.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE
    return client.call(SaslAuthenticateRequest(auth_bytes=token), 2)


def is_closed(client: RawClient) -> bool:
    client.socket.settimeout(30)
    try:
        return client.socket.recv(1) == b""
    except ConnectionResetError:
        # The node had not read everything that the client sent.
        return True


def test_api_versions_comes_before_the_login_and_everything_else_after(node: SaslNode) -> None:
    with RawClient(node.address) as client:
        assert client.call(ApiVersionsRequest(), 2).error_code == ErrorCode.NONE
        with pytest.raises((ConnectionClosed, ConnectionError)):
            client.call(MetadataRequest(topics=[]), 12)
    with RawClient(node.address) as client:
        assert log_in(client, f"\0alice\0{PASSWORD}".encode()).error_code == ErrorCode.NONE
        assert client.call(MetadataRequest(topics=[]), 12).brokers
        # This listener does not allow a second login.
        again = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_pipelined_request_is_not_answered_before_the_login(node: SaslNode) -> None:
    with RawClient(node.address) as client:
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        client.send(MetadataRequest(topics=[]), 12)
        assert client.receive().error_code == ErrorCode.NONE
        refused = client.receive()
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "wrong" not in refused.error_message
        assert is_closed(client)


@pytest.mark.parametrize("token", [b"", b"\0bob\0alice-secret", b"\0nobody\0x", b"root\0alice\0" + PASSWORD.encode()])
def test_a_failed_login_is_answered_and_ends_the_connection(node: SaslNode, token: bytes) -> None:
    with RawClient(node.address) as client:
        assert log_in(client, token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert is_closed(client)


def test_an_unknown_mechanism_is_answered_with_those_that_are_offered(node: SaslNode) -> None:
    with RawClient(node.address) as client:
        answer = client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert list(answer.mechanisms) == MECHANISMS
        assert is_closed(client)


def test_the_steps_have_an_order(node: SaslNode) -> None:
    for requests in (
        [(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2)],
        [(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1), (SaslHandshakeRequest(mechanism="PLAIN"), 1)],
    ):
        with RawClient(node.address) as client:
            for request, version in requests:
                client.send(request, version)
            client.socket.settimeout(30)
            while client.socket.recv(65536):
                pass


def test_tokens_without_headers_after_the_old_handshake(node: SaslNode) -> None:
    with RawClient(node.address) as client:
        assert client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0).error_code == ErrorCode.NONE
        exchange = ScramClient("SCRAM-SHA-256", "alice", PASSWORD)
        token: bytes | None = exchange.begin()
        while token is not None:
            client.socket.sendall(struct.pack(">i", len(token)) + token)
            (size,) = struct.unpack(">i", client.socket.recv(4, 0x100))
            token = exchange.evaluate(client.socket.recv(size, 0x100))
        assert exchange.is_complete
        assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_a_frame_before_the_login_is_small(node: SaslNode) -> None:
    with RawClient(node.address) as client:
        client.socket.sendall(struct.pack(">i", 200_000))
        assert is_closed(client)
    with RawClient(node.address) as client:
        assert log_in(client, f"\0alice\0{PASSWORD}".encode()).error_code == ErrorCode.NONE
        # After the login the usual limit of request sizes applies.
        assert client.call(MetadataRequest(topics=[]), 12).brokers


def test_no_secret_is_logged(node: SaslNode) -> None:
    output = (node.node.directory / "output.txt").read_text()
    assert "alice-secret" not in output
    assert "bob-secret" not in output
