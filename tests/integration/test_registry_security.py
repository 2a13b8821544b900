"""A registry with passwords and certificates: who is refused, and that instances reach each other."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

import ottla.testing
from ottla.serdes.registry_client import RegistryClient, RegistryClientError, registry_client
from tests.support.registries import RegistryProcess, registry_process
from tests.support.secured import Certificates


def test_passwords(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ada=secret\n")
    with registry_process(shared_cluster.bootstrap, "--users", str(users)) as registry:
        assert registry.code("GET", "/subjects") == (401, 401)
        for wrong in (RegistryClient(registry.url, user="ada"), RegistryClient(registry.url, token="x")):
            with pytest.raises(RegistryClientError, match="Unauthorized: the user, the password or the token is wrong"):
                wrong.call("GET", "/subjects")
            wrong.close()
        with SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "ada:secret"}) as client:
            client.register_schema("s", Schema('"int"', "AVRO"))
            assert "s" in client.get_subjects()


def test_certificates_of_servers_and_clients(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    """Both instances show their certificate to each other when one forwards to the other."""
    files = Certificates(tmp_path)
    options = (
        "--tls-certificate",
        str(files.node.with_suffix(".crt")),
        "--tls-key",
        str(files.node.with_suffix(".key")),
    )
    options += ("--tls-authorities", str(files.trusted), "--tls-clients", "--group", f"g-{uuid.uuid4().hex}")
    trust = {"schema.registry.ssl.ca.location": str(files.trusted)}
    own = {
        "schema.registry.ssl.certificate.location": str(files.client_certificate),
        "schema.registry.ssl.key.location": str(files.client_key),
    }
    with (
        registry_process(shared_cluster.bootstrap, *options) as first,
        registry_process(shared_cluster.bootstrap, *options) as second,
    ):
        assert first.url.startswith("https://")
        for number, registry in enumerate((first, second)):
            register(registry, {**trust, **own}, f"tls-{number}")
        anonymous = registry_client({"schema.registry.url": first.url, **trust})
        with pytest.raises(RegistryClientError, match="cannot be reached"):
            anonymous.call("GET", "/subjects")
        anonymous.close()


def register(registry: RegistryProcess, config: dict[str, str], subject: str) -> None:
    client = registry_client({"schema.registry.url": registry.url, **config})
    assert client.call("POST", f"/subjects/{subject}/versions", {"schema": '"string"'})["version"] == 1
    assert subject in client.call("GET", "/subjects")
    client.close()
