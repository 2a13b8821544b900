"""A node with encrypted listeners, and the certificates of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ottla.host.free_ports import free_ports
from ottla.tls.authority import Authority, KeyPair, new_authority
from tests.support.brokers import ApacheKafka, OttlaFromFile

__all__ = ["Certificates", "SecuredNode"]


class Certificates:
    """The certificate files of an authority, a node and a client, in the formats of all kinds of clients."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.authority: Authority = new_authority()
        self.node = self.write("node", self.authority.for_node("localhost", "127.0.0.1", common_name="node"))
        self.client = self.write("client", self.authority.for_client("alice"))
        self.trusted = directory / "ca.pem"
        self.trusted.write_text(self.authority.certificate)

    def write(self, name: str, pair: KeyPair) -> Path:
        """Writes a key store in PEM, and the key and the certificates as separate files."""
        (self.directory / f"{name}.key").write_text(pair.key)
        (self.directory / f"{name}.crt").write_text(pair.certificates)
        path = self.directory / f"{name}.pem"
        path.write_text(pair.store)
        return path

    @property
    def client_key(self) -> Path:
        return self.client.with_suffix(".key")

    @property
    def client_certificate(self) -> Path:
        return self.client.with_suffix(".crt")

    def server_settings(self, prefix: str = "") -> dict[str, str]:
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(self.node),
            f"{prefix}ssl.truststore.type": "PEM",
            f"{prefix}ssl.truststore.location": str(self.trusted),
        }

    def client_properties(self, *, with_key: bool = True) -> dict[str, str]:
        """The properties for Java's clients and for our own."""
        properties = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trusted)}
        if with_key:
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.client)}
        return properties


class SecuredNode:
    """A node with the listeners of `protocols`, by name, and the listeners PLAINTEXT and CONTROLLER."""

    def __init__(
        self,
        directory: Path,
        protocols: Mapping[str, str],
        settings: Mapping[str, str],
        *,
        kind: type[OttlaFromFile] | type[ApacheKafka] = OttlaFromFile,
    ) -> None:
        self.node = kind(directory, settings)
        self.ports = dict(zip(protocols, free_ports(len(protocols)), strict=True))
        inside = f"PLAINTEXT://127.0.0.1:{self.node._ports[0]},CONTROLLER://{self.node.controller}"
        outside = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        self.node.settings["listeners"] = ",".join([inside, *outside])
        advertised = [f"{name}://localhost:{port}" for name, port in self.ports.items()]
        self.node.settings["advertised.listeners"] = ",".join([inside.split(",")[0], *advertised])
        mapped = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}
        self.node.settings["listener.security.protocol.map"] = ",".join(f"{k}:{v}" for k, v in mapped.items())
        self.node.settings.setdefault("inter.broker.listener.name", "PLAINTEXT")

    def address(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    @property
    def output(self) -> str:
        return (self.node.directory / "output.txt").read_text(errors="replace")

    def __enter__(self) -> SecuredNode:
        self.node.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.node.stop()
