"""Errors of the registry client: they end in logs, headers and columns, so they have no passwords."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ottla.serdes.avro import AvroSerializer
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, RegistryClientError, SchemaText


class Proxy(BaseHTTPRequestHandler):
    """A server that is no registry."""

    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://user:secret@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
