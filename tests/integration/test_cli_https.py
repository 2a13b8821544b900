"""Commands that speak HTTPS trust the authority that --ca names, and no other."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import run
from tests.support.secured import Certificates


class Answers(BaseHTTPRequestHandler):
    """No connectors, and no schemas."""

    def do_GET(self) -> None:
        body = json.dumps({} if self.path.startswith("/connectors") else []).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Writes no log."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def url(certificates: Certificates) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.node)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(60)


@pytest.mark.parametrize("command", [["connect", "list", "--url"], ["schemas", "list", "--registry"]])
def test_the_authority_is_named_by_a_flag(
    command: list[str], url: str, certificates: Certificates, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, url, "--ca", str(certificates.trusted)]) == 0
    assert "There are no" in capsys.readouterr().err
    # Without --ca the command uses the machine's authorities, which do not include this one.
    assert run([*command, url]) == 1
    assert "certificate" in capsys.readouterr().err
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    assert run([*command, url, "--ca", str(wrong)]) == 1
    assert "has no certificates in PEM" in capsys.readouterr().err
