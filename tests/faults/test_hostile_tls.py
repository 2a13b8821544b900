"""Clients that do not complete their TLS handshakes, or ask for very many, while an honest client is served."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.support.hostile import Siege
from tests.support.secured import Certificates, SecuredNode

pytestmark = pytest.mark.faults

SECONDS = 12.0


class AsCluster:
    """A node with the interface of a cluster, as `Siege` needs it."""

    def __init__(self, node: SecuredNode) -> None:
        self._node = node
        self.bootstrap = node.node.bootstrap

    def node(self, _: int) -> AsCluster:
        return self

    @property
    def pid(self) -> int:
        return self._node.node.pid

    @property
    def running(self) -> bool:
        return self._node.node.runs

    @property
    def output(self) -> str:
        return self._node.output


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("node"), {"CLIENTS": "SSL"}, certificates.server_settings()) as running:
        yield running


def siege(attack: str, node: SecuredNode) -> Siege:
    cluster: Any = AsCluster(node)
    return Siege(attack, cluster)


def in_threads(count: int, work: Callable[[], object]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def client_hello(certificates: Certificates) -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def is_served(node: SecuredNode, certificates: Certificates) -> bool:
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    with socket.create_connection(("127.0.0.1", node.ports["CLIENTS"]), timeout=60) as raw:
        context.wrap_socket(raw, server_hostname="localhost").close()
    return True


def test_handshakes_byte_by_byte_are_closed_in_time(node: SecuredNode, certificates: Certificates) -> None:
    hello = client_hello(certificates)
    with siege("600 TLS handshakes, one byte at a time", node), ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", node.ports["CLIENTS"]), timeout=60))
            for _ in range(600)
        ]
        end = time.monotonic() + SECONDS
        for position in range(len(hello) - 1):
            for connection in slow:
                with suppress(OSError):
                    connection.send(hello[position : position + 1])
            assert is_served(node, certificates)
            if time.monotonic() > end:
                break
        # The node has closed all connections.
        for connection in slow:
            with suppress(ConnectionError):
                while connection.recv(4096):
                    pass
    assert "no TLS handshake within 10 s" in node.output


def test_a_storm_of_handshakes(node: SecuredNode, certificates: Certificates) -> None:
    end = time.monotonic() + SECONDS

    def connect() -> None:
        while time.monotonic() < end:
            with suppress(OSError):
                is_served(node, certificates)

    with siege("TLS handshakes of 16 clients without a pause", node):
        in_threads(16, connect)


def test_garbage_and_broken_records(node: SecuredNode, certificates: Certificates) -> None:
    end = time.monotonic() + SECONDS / 2
    hello = client_hello(certificates)

    def attack() -> None:
        chance = random.Random(threading.get_ident())
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", node.ports["CLIENTS"]), timeout=60) as raw:
                data = bytearray(hello)
                for _ in range(chance.randint(1, 20)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                raw.sendall(data[: chance.randint(1, len(data))] + chance.randbytes(chance.randint(0, 5000)))
                if chance.random() < 0.5:
                    raw.shutdown(socket.SHUT_WR)
                    raw.recv(4096)

    with siege("broken TLS records of 8 clients", node):
        in_threads(8, attack)
    assert is_served(node, certificates)
