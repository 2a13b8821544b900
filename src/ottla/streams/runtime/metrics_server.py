"""Serves the metrics of an application to Prometheus, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["MetricsServer"]


class MetricsServer:
    """`text` is called for every scrape. Port 0 takes a free port."""

    def __init__(self, text: Callable[[], str], host: str, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            # A connection that sends nothing is closed.
            timeout = 60.0

            def do_GET(self) -> None:
                is_known = self.path == "/metrics"
                content = text().encode() if is_known else b"The metrics are at /metrics.\n"
                self.send_response(200 if is_known else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Scrapes are not logged."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="streams-metrics", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
