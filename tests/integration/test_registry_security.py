"""A registry with passwords and certificates: refused clients, and requests between instances."""

from __future__ import annotations

import base64
import http.client
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
    """An instance that forwards and its peer show their certificates to each other."""
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


def test_web_pages_of_other_addresses(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    """CORS: a browser's preflight request, and the headers of the answer that allow requests with credentials."""
    (tmp_path / "users").write_text("ada=a\n")
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    options = ("--users", str(tmp_path / "users"), "--topic", topic, "--group", topic)
    origins = (
        "--allow-origin",
        "https://*.example.org",
        "--allow-methods",
        "GET,PUT",
        "--allow-headers",
        "Authorization",
    )

    def ask(registry: RegistryProcess, method: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", registry.port)
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, {name: value for name, value in answer.getheaders() if name.startswith(("Acc", "All"))}

    with registry_process(shared_cluster.bootstrap, *options, *origins) as registry:
        page = "https://console.example.org"
        allowing_headers = {"Access-Control-Allow-Origin": page, "Access-Control-Allow-Credentials": "true"}
        status, answer_headers = ask(registry, "OPTIONS", "/config", Origin=page, Access_Control_Request_Method="PUT")
        assert status == 200
        assert answer_headers == allowing_headers | {
            "Allow": "DELETE,GET,HEAD,OPTIONS,PUT",
            "Access-Control-Allow-Methods": "GET,PUT",
            "Access-Control-Allow-Headers": "Authorization",
            "Access-Control-Max-Age": "1800",
        }
        ada = "Basic " + base64.b64encode(b"ada:a").decode()
        assert ask(registry, "GET", "/subjects", Origin=page, Authorization=ada) == (200, allowing_headers)
        # The page may read the refusal.
        assert ask(registry, "GET", "/subjects", Origin=page) == (401, allowing_headers)
        evil = "https://example.org.evil"
        assert ask(registry, "GET", "/subjects", Origin=evil, Authorization=ada) == (200, {})
        allowed = {"Allow": "GET,HEAD,OPTIONS"}
        assert ask(registry, "OPTIONS", "/subjects", Origin=evil, Access_Control_Request_Method="GET") == (200, allowed)
        assert ask(registry, "OPTIONS", "/contexts/.x/subjects")[0] == 200
        assert ask(registry, "OPTIONS", "/nowhere")[0] == 404
