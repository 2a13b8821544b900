"""Clients that stay connected log in again before their login expires (KIP-368)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import confluent_kafka
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.client.admin import AdminClient
from ottla.client.login import PasswordLogin
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.host.free_ports import free_ports
from ottla.model.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.sasl_node import PASSWORD, SaslNode, librdkafka

SESSION_MS = 1_500


class Node(SaslNode):
    """A node with short sessions, whose metrics tell how often clients log in."""

    def __init__(self, directory: Path) -> None:
        (self._metrics_port,) = free_ports(1)
        super().__init__(
            directory,
            {
                "listener.name.clients.connections.max.reauth.ms": str(SESSION_MS),
                "listener.name.clients.plain.connections.max.reauth.ms": str(SESSION_MS + 1),
                "ottla.metrics.listener": f"127.0.0.1:{self._metrics_port}",
            },
        )

    def counted(self, name: str) -> float:
        """A metric of the listener CLIENTS, or of the node if the metric has no listener."""
        with urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"kafka_server_socket_server_metrics_{name}"
            and sample.labels.get("listener", "CLIENTS") == "CLIENTS"
        )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def until(condition: Callable[[], bool], step: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        step()


def test_our_client_logs_in_again_and_keeps_its_connection(node: Node) -> None:
    async def work() -> None:
        settings = ClientSettings(
            bootstrap_servers=parse_bootstrap(node.address),
            login=PasswordLogin("SCRAM-SHA-512", "alice", PASSWORD),
        )
        async with AdminClient(settings) as admin:
            await admin.topics.names()
            connections = node.counted("connection_creation_total")
            before = node.counted("successful_reauthentication_total")
            failed = node.counted("failed_reauthentication_total")
            deadline = time.monotonic() + 60
            while node.counted("successful_reauthentication_total") < before + 2:
                assert time.monotonic() < deadline
                # Several requests at once: some wait for the end of a login.
                await asyncio.gather(*[admin.topics.names() for _ in range(20)])
            assert node.counted("connection_creation_total") == connections
            assert node.counted("failed_reauthentication_total") == failed

    asyncio.run(work())


def test_librdkafka_logs_in_again(node: Node) -> None:
    errors: list[object] = []
    producer = confluent_kafka.Producer(librdkafka(node, "SCRAM-SHA-256", error_cb=errors.append))
    before = node.counted("successful_reauthentication_total")

    def send() -> None:
        producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error) if error else None)
        assert producer.flush(30) == 0

    until(lambda: node.counted("successful_reauthentication_total") >= before + 2, send)
    assert errors == []


def log_in(client: RawClient, user: str, password: str) -> object:
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.NONE
    return client.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)


def test_a_session_has_the_length_of_its_mechanism_and_ends(node: Node) -> None:
    expired = node.counted("expired_connections_killed_count")
    with RawClient(node.address) as client:
        answer = log_in(client, "alice", PASSWORD)
        assert answer.session_lifetime_ms == SESSION_MS + 1
        with pytest.raises((ConnectionClosed, ConnectionError)):
            until(lambda: False, lambda: client.call(MetadataRequest(topics=[]), 12))
    assert node.counted("expired_connections_killed_count") == expired + 1


def test_another_user_cannot_take_over_a_connection(node: Node) -> None:
    with RawClient(node.address) as client:
        log_in(client, "alice", PASSWORD)
        answer = log_in(client, "bob", "bob-secret")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Cannot change principals" in answer.error_message
        assert client.socket.recv(1) == b""


def test_no_request_comes_between_the_steps_of_a_login(node: Node) -> None:
    with RawClient(node.address) as client:
        log_in(client, "alice", PASSWORD)
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.NONE
        with pytest.raises((ConnectionClosed, ConnectionError)):
            client.call(MetadataRequest(topics=[]), 12)
