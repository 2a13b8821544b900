"""Questions of a broker to a Schema Registry: where the password goes, and what errors show."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ottla.host.schema_lookups import ask_registry


class Registry(BaseHTTPRequestHandler):
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    Registry.asked = []
    with HTTPServer(("127.0.0.1", 0), Registry) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_a_redirection_does_not_get_the_password(server: HTTPServer) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(OSError, match="answers with status 302"):
        ask_registry([url], "user:secret", 5.0, "/moved")
    assert [path for path, _ in Registry.asked] == ["/moved"]


def test_the_login_of_an_address_is_used_and_not_shown(server: HTTPServer) -> None:
    host = f"127.0.0.1:{server.server_port}"
    assert ask_registry([f"http://user:se%20cret@{host}/"], "", 5.0, "/x") == b"[]"
    assert Registry.asked == [("/x", f"Basic {base64.b64encode(b'user:se cret').decode()}")]
    with pytest.raises(OSError, match=f"^http://{host} answers with status 302$"):
        ask_registry([f"http://user:secret@{host}"], "", 5.0, "/moved")
