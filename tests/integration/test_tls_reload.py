"""Certificates of a running node change, and open connections stay usable."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.secured import Certificates, SecuredNode

NAMES = ("localhost", "127.0.0.1")
STORE = "listener.name.inline.ssl.keystore.location"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    first = certificates.write("first", certificates.authority.for_node(*NAMES, common_name="node"))
    settings = {
        **certificates.server_settings(),
        "ottla.tls.reload.interval.ms": "100",
        "listener.name.strict.ssl.client.auth": "required",
        STORE: str(first),
    }
    listeners = {"FILE": "SSL", "INLINE": "SSL", "STRICT": "SSL"}
    with SecuredNode(tmp_path_factory.mktemp("node"), listeners, settings) as running:
        yield running


class Client:
    """A TLS connection that sends ApiVersions requests to the node."""

    def __init__(self, node: SecuredNode, certificates: Certificates, listener: str, store: Path | None = None) -> None:
        context = ssl.create_default_context(cafile=str(certificates.trusted))
        if store is not None:
            context.load_cert_chain(store)
        raw = socket.create_connection(("127.0.0.1", node.ports[listener]), timeout=30)
        self.connected = context.wrap_socket(raw, server_hostname="localhost")

    @property
    def certificate(self) -> bytes:
        certificate = self.connected.getpeercert(binary_form=True)
        assert certificate is not None
        return certificate

    def ask(self) -> None:
        self.connected.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            chunk = self.connected.recv(65_536)
            assert chunk, "the node closed the connection"
            received += chunk
        assert received[4:8] == struct.pack(">i", 7)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.connected.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def shown_by(node: SecuredNode, certificates: Certificates, listener: str) -> bytes:
    with Client(node, certificates, listener) as client:
        return client.certificate


def der_of(path: Path) -> bytes:
    text = path.with_suffix(".crt").read_text()
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(text[: text.index(end) + len(end)])


def test_a_file_that_has_changed_is_read_again(node: SecuredNode, certificates: Certificates) -> None:
    with Client(node, certificates, "FILE") as early:
        early.ask()
        assert early.certificate == der_of(certificates.node)
        authority = certificates.authority
        renewed = certificates.write("node", authority.for_node(*NAMES, "more.example", common_name="Node"))
        wait_until(lambda: shown_by(node, certificates, "FILE") == der_of(renewed))
        early.ask()
        # The node rejects a certificate for another name, a certificate with fewer names, and an incomplete file.
        for name, pair in (
            ("another", authority.for_node(*NAMES, "more.example", common_name="another")),
            ("fewer", authority.for_node(*NAMES, common_name="node")),
        ):
            lines = len(node.output.splitlines())
            good = renewed.read_text()
            renewed.write_text(pair.store)
            words = "is for CN=another" if name == "another" else "lacks 1 alternative names"
            wait_until(lambda lines=lines, words=words: words in "\n".join(node.output.splitlines()[lines:]))
            assert shown_by(node, certificates, "FILE") == der_of(renewed)
            renewed.write_text(good)
        renewed.write_text("-----BEGIN PRIVATE KEY-----")
        wait_until(lambda: "must have exactly one private key" in node.output)
        with Client(node, certificates, "FILE") as late:
            late.ask()
        renewed.write_text(good)
        early.ask()


def alter(node: SecuredNode, store: Path) -> None:
    admin = AdminClient({"bootstrap.servers": node.node.bootstrap})
    change = ConfigEntry(STORE, str(store), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(30)


def test_a_certificate_changes_through_the_admin_protocol(node: SecuredNode, certificates: Certificates) -> None:
    authority = certificates.authority
    with Client(node, certificates, "INLINE") as early:
        second = certificates.write("second", authority.for_node(*NAMES, common_name="node"))
        alter(node, second)
        wait_until(lambda: shown_by(node, certificates, "INLINE") == der_of(second))
        early.ask()
        other = certificates.write("other", authority.for_node(*NAMES, common_name="other"))
        with pytest.raises(KafkaException, match=r"set ssl\.allow\.dn\.changes=true"):
            alter(node, other)
        with pytest.raises(KafkaException, match="cannot be read: No such file"):
            alter(node, Path("/nowhere.pem"))
        assert shown_by(node, certificates, "INLINE") == der_of(second)
        early.ask()


def test_a_certificate_expires_while_its_client_is_connected(node: SecuredNode, certificates: Certificates) -> None:
    """As in Apache Kafka, the open connection stays usable, and a new connection is refused."""
    brief = certificates.write("brief", certificates.authority.for_client("brief", days=5 / 86_400))
    with Client(node, certificates, "STRICT", brief) as early:
        early.ask()

        def is_refused() -> bool:
            try:
                with Client(node, certificates, "STRICT", brief) as late:
                    late.ask()
            except (ssl.SSLError, ConnectionError, AssertionError):
                return True
            return False

        wait_until(is_refused)
        early.ask()
    wait_until(lambda: "the certificate of the client is not accepted: certificate has expired" in node.output)
