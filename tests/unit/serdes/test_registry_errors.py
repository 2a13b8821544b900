"""Errors of the registry client: they end in logs, headers and columns, so they have no passwords."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from ottla.serdes.avro import AvroSerializer
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, RegistryClientError, SchemaText
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


def test_a_serializer_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"schema.registry.url": "http://127.0.0.1:1"}
    serializer = AvroSerializer('"string"', config=config)
    with pytest.raises(
        SerializationError, match=r"its schema could not be looked up: The registry .* cannot be reached"
    ):
        serializer.serialize("t", "x")
    found = RegisteredSchema("t-value", 1, 1, "", SchemaText('"string"'))
    monkeypatch.setattr(RegistryClient, "register", lambda *_, **__: found)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SerializationError, match=r"schemas need fastavro.*pip install 'ottla\[registry\]'"):
        serializer.serialize("t", "x")
