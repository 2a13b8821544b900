"""Keys in Vault: a server that answers as Vault's transit engine is documented to."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ottla.encryption import DataKeys, DecryptingDeserializer, EncryptingSerializer, KeyServiceError, VaultKeyService
from ottla.serdes import BytesDeserializer, BytesSerializer
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import is_registry_failure

TOKEN = "planted-token"


class Transit(BaseHTTPRequestHandler):
    """`encrypt` and `decrypt` of one key, with a version in front as Vault writes it."""

    server: TransitServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, _, mount, action, key = self.path.split("/")
        self.server.asked.append(action)
        if key == "odd":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
        elif key.isdecimal():
            self._answer(int(key), {"errors": ["as the test wants"]})
        elif key == "proxy":
            self._answer(200, {"status": "up"})
        elif self.headers["X-Vault-Token"] != TOKEN:
            self._answer(403, {"errors": ["permission denied"]})
        elif (mount, key) != ("transit", "orders"):
            self._answer(400, {"errors": ["encryption key not found"]})
        elif action == "encrypt":
            self._answer(200, {"data": {"ciphertext": f"vault:v1:{body['plaintext'][::-1]}"}})
        elif not body["ciphertext"].startswith("vault:v1:"):
            self._answer(400, {"errors": ["invalid ciphertext: no prefix"]})
        else:
            self._answer(200, {"data": {"plaintext": body["ciphertext"].removeprefix("vault:v1:")[::-1]}})

    def _answer(self, code: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


class TransitServer(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Transit)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def vault() -> Iterator[TransitServer]:
    with TransitServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_vault_keeps_the_key(vault: TransitServer) -> None:
    settings = {
        "encryption.key.service": "vault",
        "encryption.key.name": "orders",
        "encryption.vault.url": vault.url,
        "encryption.vault.token": TOKEN,
    }
    serializer, deserializer = EncryptingSerializer(BytesSerializer()), DecryptingDeserializer(BytesDeserializer())
    serializer.configure(settings, is_key=False)
    deserializer.configure(settings, is_key=False)
    sealed = [serializer.serialize("orders", b"%d" % number) for number in range(100)]
    assert [deserializer.deserialize("orders", ciphertext) for ciphertext in sealed] == [
        b"%d" % number for number in range(100)
    ]
    assert vault.asked == ["encrypt", "decrypt"]
    serializer.close()
    deserializer.close()


def test_a_refusal_names_the_address_and_the_reason_but_not_the_token(vault: TransitServer) -> None:
    wrong = DataKeys(VaultKeyService(vault.url, "planted-wrong"))
    serializer = EncryptingSerializer(BytesSerializer(), keys=wrong, key_name="orders")
    with pytest.raises(SerializationError, match=f"{vault.url}.*403 permission denied") as failure:
        serializer.serialize("orders", b"x")
    assert "planted" not in str(failure.value)
    with pytest.raises(KeyServiceError, match="encryption key not found"):
        VaultKeyService(vault.url, TOKEN).wrap("../sys", base64.b64decode("AAAA"))
    with pytest.raises(KeyServiceError, match="no prefix"):
        VaultKeyService(vault.url, TOKEN).unwrap("orders", b"\xff\xfe")


def test_a_server_that_does_not_speak_http(vault: TransitServer) -> None:
    with pytest.raises(KeyServiceError, match="cannot be asked"):
        VaultKeyService(vault.url, TOKEN).wrap("odd", b"x")


@pytest.mark.parametrize(
    ("key", "is_outage"),
    [
        ("odd", True),
        ("proxy", True),
        ("307", True),
        ("429", True),
        ("500", True),
        ("503", True),
        ("400", False),
        ("403", False),
        ("404", False),
        ("nosuch", False),
    ],
)
def test_which_answers_say_nothing_about_the_record(vault: TransitServer, key: str, is_outage: bool) -> None:
    """After an outage the batch is repeated; a key that is missing or not permitted is a problem of the record."""
    serializer = EncryptingSerializer(BytesSerializer(), keys=DataKeys(VaultKeyService(vault.url, TOKEN)), key_name=key)
    with pytest.raises(SerializationError, match="cannot be encrypted") as failure:
        serializer.serialize("orders", b"x")
    assert is_registry_failure(failure.value) is is_outage


def test_a_service_that_cannot_be_reached_says_nothing_about_the_record() -> None:
    keys = DataKeys(VaultKeyService("http://127.0.0.1:1", TOKEN))
    with pytest.raises(SerializationError, match="cannot be asked") as failure:
        EncryptingSerializer(BytesSerializer(), keys=keys, key_name="orders").serialize("orders", b"x")
    assert is_registry_failure(failure.value)


def test_an_address_that_does_not_answer() -> None:
    with pytest.raises(KeyServiceError, match="cannot be asked"):
        VaultKeyService("http://127.0.0.1:1", TOKEN).wrap("orders", b"x")
    with pytest.raises(KeyServiceError, match="not the address"):
        VaultKeyService("file:///etc/passwd", TOKEN)
