"""Errors of the registry client: they end in logs, headers and columns, so they have no passwords."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from ottla.serdes.avro import AvroSerializer
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import (
    RegisteredSchema,
    RegistryClient,
    RegistryClientError,
    SchemaText,
    is_registry_failure,
)
from tests.support.http_servers import AnsweringHandler, http_server


class Proxy(AnsweringHandler):
    """A server that is no registry."""

    def do_GET(self) -> None:
        self.answer(302 if self.path == "/moved" else 200, b"<html>")


@pytest.fixture
def url() -> Iterator[str]:
    with http_server(Proxy) as address:
        yield f"http://user:secret@{address}"


@pytest.mark.parametrize(("path", "said"), [("/moved", "answered with 302"), ("/subjects", "is not JSON")])
def test_an_answer_that_is_not_from_a_registry(url: str, path: str, said: str) -> None:
    client = RegistryClient(url)
    with pytest.raises(RegistryClientError, match=said) as caught:
        client.call("GET", path)
    client.close()
    assert "secret" not in str(caught.value)


def test_a_registry_that_cannot_be_reached() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        client = RegistryClient(f"http://user:secret@{place}")
        with pytest.raises(RegistryClientError, match=f"The registry http://{place} cannot be reached") as caught:
            client.call("GET", "/subjects")
    client.close()
    assert "secret" not in str(caught.value)


def test_an_address_without_a_scheme() -> None:
    with pytest.raises(ValueError, match=r"^'localhost:8081' is not an address"):
        RegistryClient("user:secret@localhost:8081")


@pytest.mark.parametrize(
    ("status", "is_failure"), [(0, True), (401, True), (403, True), (429, True), (500, True), (503, True), (404, False)]
)
def test_which_errors_say_nothing_about_the_record(status: int, is_failure: bool) -> None:
    error = RegistryClientError(status, status, "refused")
    outer = SerializationError("its schema is missing")
    outer.__cause__ = ValueError("no schema")
    assert not is_registry_failure(outer)
    outer.__cause__.__cause__ = error
    assert is_registry_failure(outer) is is_registry_failure(error) is is_failure


class OlderRegistry(AnsweringHandler):
    """Answers a registration with the id alone."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer_json(200, b'{"id": 7}' if self.path.endswith("/versions") else b'{"id": 7, "version": 3}')


def test_a_lookup_after_a_registration_asks_for_the_version() -> None:
    with http_server(OlderRegistry) as address:
        client, schema = RegistryClient(f"http://{address}"), SchemaText('"string"')
        assert client.register("t-value", schema).version == 0
        assert client.lookup("t-value", schema).version == 3
        client.close()


@pytest.mark.parametrize("call", ["register", "lookup"])
def test_an_answer_without_rules_leaves_the_rules_of_the_schema(call: str) -> None:
    """Otherwise records would be written without them, and so without an encryption."""
    rules = {"domainRules": [{"name": "hide", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}]}
    metadata = {"properties": {"owner": "finance"}}
    with http_server(OlderRegistry) as address:
        client = RegistryClient(f"http://{address}")
        schema = SchemaText('"string"', metadata=metadata, rule_set=rules)
        registered = getattr(client, call)("t-value", schema).schema
        client.close()
    assert (registered.metadata, registered.rule_set) == (metadata, rules)


def test_a_serializer_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"schema.registry.url": "http://127.0.0.1:1"}
    serializer = AvroSerializer('"string"', config=config)
    with pytest.raises(
        SerializationError, match=r"its schema could not be looked up: The registry .* cannot be reached"
    ):
        serializer.serialize("t", "x")
    registered = RegisteredSchema("t-value", 1, 1, "", SchemaText('"string"'))
    monkeypatch.setattr(RegistryClient, "register", lambda *_, **__: registered)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SerializationError, match=r"schemas need fastavro.*pip install 'ottla\[registry\]'"):
        serializer.serialize("t", "x")
