"""Rights for single subjects, with confluent-kafka's registry client: allowed requests, refusals and the audit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError

import ottla.testing
from ottla.registry.node.passwords import hashed_password
from ottla.serdes.registry_client import RegistryClientError, registry_client
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.registries import RegistryProcess, registry_process
from tests.support.secured import Certificates

ACLS = """
SUPER User:root
ALLOW User:ada SUBJECT_READ,SUBJECT_WRITE a-*
ALLOW User:ada SUBJECT_COMPATIBILITY_READ a-*
ALLOW User:ada ALL :.lab:*
ALLOW User:bob SUBJECT_READ a-one
ALLOW User:ada KEY_READ,KEY_WRITE k-ada
ALLOW User:eve SUBJECT_COMPATIBILITY_WRITE *
ALLOW User:eve SUBJECT_WRITE secret
ALLOW User:max GLOBAL_COMPATIBILITY_WRITE
"""
TEXT = Schema('"string"', "AVRO")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("acls")
    (directory / "acls").write_text(ACLS)
    (directory / "users").write_text(f"root=r\nada={hashed_password('a')}\nbob=b\neve=e\nmax=m\n")
    return directory


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster, files: Path) -> Iterator[RegistryProcess]:
    options = ("--users", str(files / "users"), "--acls", str(files / "acls"), "--audit", str(files / "audit"))
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    with registry_process(shared_cluster.bootstrap, *options, "--topic", topic, "--group", topic) as process:
        with login(process, "root:r") as root:
            for subject in ("a-one", "a-two", "b-one", ":.lab:x"):
                root.register_schema(subject, TEXT)
            root.register_schema("secret", Schema('{"type":"fixed","name":"S","size":4}', "AVRO"))
        yield process


@contextmanager
def login(registry: RegistryProcess, user: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": user}) as client:
        yield client


@contextmanager
def new_subject(registry: RegistryProcess, subject: str) -> Iterator[str]:
    """A subject that is deleted at the end, because another test compares the list of all subjects."""
    try:
        yield subject
    finally:
        with login(registry, "root:r") as root:
            if subject in root.get_subjects():
                root.delete_subject(subject)


def denied(question: Callable[[], Any], message: str) -> None:
    with pytest.raises(SchemaRegistryError) as caught:
        question()
    assert (caught.value.http_status_code, caught.value.error_code) == (403, 40301)
    assert message in str(caught.value)


def test_without_credentials_there_is_no_answer(registry: RegistryProcess) -> None:
    assert registry.code("GET", "/subjects") == (401, 401)
    with login(registry, "ada:wrong") as client, pytest.raises(SchemaRegistryError) as caught:
        client.get_subjects()
    assert (caught.value.http_status_code, caught.value.error_code) == (401, 401)


def test_lists_show_what_may_be_read(registry: RegistryProcess) -> None:
    with login(registry, "ada:a") as ada, login(registry, "bob:b") as bob, login(registry, "root:r") as root:
        assert ada.get_subjects() == [":.lab:x", "a-one", "a-two"]
        assert bob.get_subjects() == ["a-one"]
        assert "secret" in root.get_subjects()
        assert ada.get_contexts() == [".", ".lab"]
        assert bob.get_contexts() == ["."]
        number = root.get_latest_version("a-one").schema_id or 0
        assert {version.subject for version in bob.get_schema_versions(number)} == {"a-one"}


def test_reading_writing_and_deleting(registry: RegistryProcess) -> None:
    with (
        login(registry, "ada:a") as ada,
        login(registry, "bob:b") as bob,
        new_subject(registry, "a-new") as created_subject,
        new_subject(registry, ":.lab:y") as own,
    ):
        assert bob.get_latest_version("a-one").version == 1
        denied(lambda: bob.get_latest_version("a-two"), "User is denied operation Read on Subject: a-two")
        denied(lambda: bob.register_schema("a-one", TEXT), "User is denied operation Write on Subject: a-one")
        assert ada.register_schema(created_subject, TEXT) > 0
        denied(lambda: ada.delete_subject(created_subject), "User is denied operation Delete on Subject: a-new")
        denied(lambda: ada.register_schema("b-one", TEXT), "Write on Subject: b-one")
        denied(lambda: ada.lookup_schema("b-one", TEXT), "Read on Subject: b-one")
        denied(lambda: ada.test_compatibility("b-one", TEXT), "Read on Subject: b-one")
        # ada has all rights in this context.
        assert ada.register_schema(own, TEXT) > 0
        assert ada.delete_subject(own) == [1]


def test_settings(registry: RegistryProcess) -> None:
    with login(registry, "ada:a") as ada, login(registry, "root:r") as root:
        denied(lambda: ada.get_config(), "ReadCompatibility on this server")
        denied(
            lambda: ada.set_config(config=ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)),
            "WriteCompatibility on this server",
        )
        root.set_config("a-one", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
        assert ada.get_config("a-one").compatibility_level == "FULL"
        denied(
            lambda: ada.set_config("a-one", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)),
            "WriteCompatibility on Subject: a-one",
        )
        # Rights for all subjects do not include the settings above all contexts.
        with login(registry, "eve:e") as eve:
            denied(
                lambda: eve.set_config(":.__GLOBAL:", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)),
                "WriteCompatibility on this server",
            )
        changed = ada.set_config(":.lab:", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
        assert changed["compatibility"] == "NONE"


def test_a_recursive_deletion_needs_the_rights_for_every_subject(registry: RegistryProcess) -> None:
    with login(registry, "root:r") as root, login(registry, "ada:a") as ada:
        for owner in (":.lab:", ":.lab:x", "b-one"):
            root._rest_client.put(f"mode/{owner}", body={"mode": "READONLY"})
        assert ada._rest_client.delete("mode/:.lab:", {"recursive": "true"}) == {"mode": "READONLY"}
        assert root._rest_client.get("mode/:.lab:x", {"defaultToGlobal": "true"}) == {"mode": "READWRITE"}
        denied(lambda: ada._rest_client.delete("mode/:.:", {"recursive": "true"}), "WriteCompatibility on this server")
    with login(registry, "max:m") as ops, login(registry, "root:r") as root:
        denied(lambda: ops._rest_client.delete("mode", {"recursive": "true"}), "WriteCompatibility on Subject: b-one")
        assert root._rest_client.delete("mode", {"recursive": "true"}) == {"mode": "READWRITE"}


def test_ids_guids_references_and_aliases_open_no_back_door(registry: RegistryProcess) -> None:
    with login(registry, "ada:a") as ada, login(registry, "root:r") as root:
        secret = root.get_latest_version("secret")
        assert secret.schema_id is not None
        for path in (
            f"/schemas/ids/{secret.schema_id}",
            f"/schemas/ids/{secret.schema_id}?subject=a-one",
            f"/schemas/ids/{secret.schema_id}/schema",
            f"/schemas/guids/{secret.guid}",
            f"/schemas/guids/{str(secret.guid).replace('-', '')}",
            f"/schemas/guids/urn:uuid:{secret.guid}",
            f"/schemas/guids/{str(secret.guid).upper()}/ids",
            "/contexts/./subjects/secret/versions/1",
            "/subjects/%3A.%3Asecret/versions/1/schema",
        ):
            client = registry_client({"schema.registry.url": registry.url, "basic.auth.user.info": "ada:a"})
            with pytest.raises(RegistryClientError, match="User is denied operation Read on ") as caught:
                client.call("GET", path)
            assert caught.value.status == 403, path
            assert "secret" not in str(caught.value) or "secret" in path
            client.close()
        reference = SchemaReference("S", "secret", 1)
        using = Schema('{"type":"record","name":"R","fields":[{"name":"s","type":"S"}]}', "AVRO", [reference])
        denied(lambda: ada.register_schema("a-using", using), "Read on Subject: secret")
        owner = registry_client({"schema.registry.url": registry.url, "basic.auth.user.info": "root:r"})
        owner.call("PUT", "/config/a-alias", {"alias": "secret"})
        owner.close()
        denied(lambda: ada.get_latest_version("a-alias"), "Read on Subject: a-alias")


def test_a_conflict_does_not_show_what_may_not_be_read(registry: RegistryProcess) -> None:
    with login(registry, "eve:e") as eve, pytest.raises(SchemaRegistryError) as caught:
        eve.register_schema("secret", TEXT)
    assert caught.value.http_status_code == 409
    assert "fixed" not in str(caught.value)
    assert "cannot be read by the user" in str(caught.value)


def test_contexts_without_a_readable_subject_are_not_told(registry: RegistryProcess) -> None:
    with login(registry, "root:r") as root:
        guid = root.get_latest_version("a-one").guid
    places = {}
    for user in ("bob:b", "ada:a"):
        client = registry_client({"schema.registry.url": registry.url, "basic.auth.user.info": user})
        places[user] = [context_id["context"] for context_id in client.call("GET", f"/schemas/guids/{guid}/ids")]
        client.close()
    assert places == {"bob:b": ["."], "ada:a": [".", ".lab"]}


def test_keys(registry: RegistryProcess) -> None:
    config = {"schema.registry.url": registry.url, "basic.auth.user.info": "ada:a"}
    client = registry_client(config)
    body = {"name": "k-ada", "kmsType": "local-kms", "kmsKeyId": "x"}
    client.call("POST", "/dek-registry/v1/keks", body)
    assert client.call("GET", "/dek-registry/v1/keks") == ["k-ada"]
    with pytest.raises(RegistryClientError, match="User is denied operation Write on Key: k-other"):
        client.call("POST", "/dek-registry/v1/keks", body | {"name": "k-other"})
    with pytest.raises(RegistryClientError, match="User is denied operation Delete on Key: k-ada"):
        client.call("DELETE", "/dek-registry/v1/keks/k-ada")
    client.close()


def test_changes_and_refusals_are_in_the_audit(registry: RegistryProcess, files: Path) -> None:
    with login(registry, "ada:a") as ada, new_subject(registry, "a-audited") as subject:
        ada.register_schema(subject, TEXT)
        denied(lambda: ada.get_latest_version("b-one"), "b-one")
    wanted = {
        ("User:ada", "POST", "/subjects/a-audited/versions?normalize=False", 200),
        ("User:ada", "GET", "/subjects/b-one/versions/latest", 403),
    }
    logged: set[Any] = set()
    deadline = time.monotonic() + 60
    while not wanted <= logged and time.monotonic() < deadline:
        entries = [json.loads(line) for line in (files / "audit").read_text().splitlines()]
        logged = {(entry["principal"], entry["method"], entry["path"], entry["status"]) for entry in entries}
    assert wanted <= logged


def test_rules_change_without_a_restart(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    (tmp_path / "acls").write_text("ALLOW User:* SUBJECT_READ *\n")
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    options = ("--acls", str(tmp_path / "acls"), "--topic", topic, "--group", topic)
    with registry_process(shared_cluster.bootstrap, *options) as registry:
        assert registry.code("POST", "/subjects/s/versions", {"schema": '"int"'}) == (403, 40301)
        (tmp_path / "acls").write_text("ALLOW User:ANONYMOUS ALL *\n")
        deadline = time.monotonic() + 60
        while registry.ask("POST", "/subjects/s/versions", {"schema": '"int"'})[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # If the new rules cannot be read, the previous rules stay in force.
        (tmp_path / "acls").write_text("nonsense\n")
        assert registry.get("/subjects") == ["s"]


def test_rules_that_cannot_be_read_stop_the_start(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    (tmp_path / "acls").write_text("ALLOW ada ALL *\n")
    with pytest.raises(AssertionError, match="line 1: ada is not a principal like User:ada"):
        RegistryProcess(shared_cluster.bootstrap, "--acls", str(tmp_path / "acls"))


def test_bearer_tokens(shared_cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    provider = IdentityProvider()
    (tmp_path / "keys").write_bytes(provider.document)
    (tmp_path / "acls").write_text("ALLOW User:alice ALL *\n")
    options = ("--token-keys", f"file://{tmp_path / 'keys'}", "--token-issuer", ISSUER, "--token-audience", AUDIENCE)
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    own = ("--acls", str(tmp_path / "acls"), "--topic", topic, "--group", topic)

    def subjects_seen(token: str) -> list[str]:
        config = {
            "url": process.url,
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
        with SchemaRegistryClient(config) as client:
            client.register_schema("s", TEXT)
            subjects: list[str] = client.get_subjects()
            return subjects

    with registry_process(shared_cluster.bootstrap, *options, *own) as process:
        assert subjects_seen(provider.token("alice")) == ["s"]
        denied(lambda: subjects_seen(provider.token("mallory")), "Write on Subject: s")
        for token in (provider.token("alice", exp=1), IdentityProvider().token("alice"), "nonsense"):
            with pytest.raises(SchemaRegistryError) as caught:
                subjects_seen(token)
            assert caught.value.http_status_code == 401


def test_names_of_certificates_also_through_another_instance(
    shared_cluster: ottla.testing.Cluster, tmp_path: Path
) -> None:
    """A forwarding instance names its client's principal; a client itself cannot claim another principal."""
    files = Certificates(tmp_path)
    (tmp_path / "acls").write_text("ALLOW User:alice ALL mine-*\nALLOW User:eve SUBJECT_READ none\n")
    files.write("eve", files.authority.for_client("eve"))
    topic = f"_schemas-{uuid.uuid4().hex[:8]}"
    options = (
        *("--tls-certificate", str(files.node.with_suffix(".crt")), "--tls-key", str(files.node.with_suffix(".key"))),
        *("--tls-authorities", str(files.trusted), "--tls-clients", "--topic", topic, "--group", topic),
        *("--acls", str(tmp_path / "acls"), "--tls-principal-rules", "RULE:^CN=([^,]*).*$/$1/,DEFAULT"),
    )
    with (
        registry_process(shared_cluster.bootstrap, *options) as first,
        registry_process(shared_cluster.bootstrap, *options) as second,
    ):
        for number, registry in enumerate((first, second)):
            for name, subject, status in (
                ("client", f"mine-{number}", 200),
                ("client", "other", 403),
                ("eve", "mine-x", 403),
            ):
                client = registry_client(
                    {
                        "schema.registry.url": registry.url,
                        "schema.registry.ssl.ca.location": str(files.trusted),
                        "schema.registry.ssl.certificate.location": str(tmp_path / f"{name}.crt"),
                        "schema.registry.ssl.key.location": str(tmp_path / f"{name}.key"),
                    }
                )
                client._headers |= {"X-Forward": "true", "X-Forward-Principal": "User:alice"} if name == "eve" else {}
                try:
                    client.call("POST", f"/subjects/{subject}/versions", {"schema": '"string"'})
                    answered = 200
                except RegistryClientError as error:
                    answered = error.status
                assert answered == status, (number, name, subject)
                client.close()
