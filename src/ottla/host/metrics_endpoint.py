"""Metrics and health over HTTP: `/metrics`, `/health/live`, `/health/ready`.

As much of HTTP/1.1 as a scrape, a probe or a browser needs: GET and HEAD, one request per connection, no bodies. It
runs on the node's own loop, so that an answer to `/health/live` proves that the loop turns. A scrape is rendered in
portions of a few milliseconds with the node's work in between. All resources are bounded, because the port may be open
to many clients.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop
    from ottla.model.ports import Timer

__all__ = ["MetricsEndpoint", "Pages"]

logger = logging.getLogger("ottla.host.metrics_endpoint")

REQUEST_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 32
CONNECTION_SECONDS_MAX = 30.0
# When the process is out of descriptors, accepting pauses for this long; clients wait in the backlog.
ACCEPT_RETRY_SECONDS = 0.2
# The longest time that a scrape may occupy the loop without a pause.
PORTION_SECONDS_MAX = 0.002

_TEXT = "text/plain; charset=utf-8"
_END_OF_REQUEST = b"\r\n\r\n"


class Pages(Protocol):
    """The source of the pages."""

    def metrics(self) -> tuple[str, Iterator[str]] | None:
        """The content type and the text in portions; None before the node has metrics."""

    def count_scrape_step(self, seconds: float) -> None:
        """Reports how long a step of a scrape has occupied the loop."""

    def unready(self) -> str | None:
        """The reason why the node does not serve clients; None if it does."""


class MetricsEndpoint:
    """Owns the bound socket and the few connections on it."""

    def __init__(self, *, loop: EventLoop, bound_socket: socket.socket, pages: Pages) -> None:
        self._loop = loop
        self._socket = bound_socket
        self.pages = pages
        self._connections: set[_HttpConnection] = set()
        self._closed = False
        loop.add_reader(bound_socket.fileno(), self._on_acceptable)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for connection in list(self._connections):
            connection.close()

    def connection_closed(self, connection: _HttpConnection) -> None:
        self._connections.discard(connection)

    def _on_acceptable(self) -> None:
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            # Out of descriptors or memory. The socket stays readable, so without a pause the loop would spin.
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(ACCEPT_RETRY_SECONDS, self._accept_again)
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            accepted.close()
            return
        accepted.setblocking(False)
        self._connections.add(_HttpConnection(self._loop, accepted, self))

    def _accept_again(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)


class _HttpConnection:
    """One request and its answer."""

    __slots__ = ("_body", "_deadline", "_endpoint", "_is_reading", "_is_writing", "_loop", "_received", "_socket")

    def __init__(self, loop: EventLoop, accepted: socket.socket, endpoint: MetricsEndpoint) -> None:
        self._loop = loop
        self._socket = accepted
        self._endpoint = endpoint
        self._received = bytearray()
        self._body = memoryview(b"")
        self._is_reading = True
        self._is_writing = False
        self._deadline: Timer | None = loop.call_later(CONNECTION_SECONDS_MAX, self.close)
        loop.add_reader(accepted.fileno(), self._on_readable)

    def close(self) -> None:
        if self._deadline is None:
            return
        self._deadline.cancel()
        self._deadline = None
        self._stop_reading()
        if self._is_writing:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        self._endpoint.connection_closed(self)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _on_readable(self) -> None:
        try:
            received = self._socket.recv(REQUEST_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not received:
            self.close()
            return
        self._received += received
        if _END_OF_REQUEST in self._received:
            self._stop_reading()
            try:
                self._answer(bytes(self._received).partition(b"\r\n")[0])
            except Exception as defect:  # noqa: BLE001 - logged and answered there
                self._fail(defect)
        elif len(self._received) >= REQUEST_BYTES_MAX:
            self._stop_reading()
            self._send("431 Request Header Fields Too Large", "the request is too large\n")

    def _fail(self, defect: Exception) -> None:
        """A defect fails this scrape only."""
        logger.error("a scrape failed", exc_info=defect)
        self._send("500 Internal Server Error", "the metrics cannot be read\n")

    def _answer(self, request_line: bytes) -> None:
        words = request_line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._send("400 Bad Request", "this is not HTTP/1.1\n")
            return
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            self._send("405 Method Not Allowed", "only GET and HEAD\n", extra="Allow: GET, HEAD\r\n")
            return
        with_body = method == "GET"
        if path == "/metrics":
            self._answer_metrics(with_body=with_body)
        elif path == "/health/live":
            self._send("200 OK", "live\n", with_body=with_body)
        elif path == "/health/ready":
            reason = self._endpoint.pages.unready()
            if reason is None:
                self._send("200 OK", "ready\n", with_body=with_body)
            else:
                self._send("503 Service Unavailable", reason + "\n", with_body=with_body)
        elif path == "/":
            self._send("200 OK", "/metrics\n/health/live\n/health/ready\n", with_body=with_body)
        else:
            self._send("404 Not Found", "there are /metrics, /health/live and /health/ready\n", with_body=with_body)

    # -- scrapes ---------------------------------------------------------------------------------------------------

    def _answer_metrics(self, *, with_body: bool) -> None:
        begun = time.monotonic()
        page = self._endpoint.pages.metrics()
        self._endpoint.pages.count_scrape_step(time.monotonic() - begun)
        if page is None:
            self._send("503 Service Unavailable", "the node is starting\n", with_body=with_body)
            return
        content_type, portions = page
        self._collect(content_type, portions, [], with_body)

    def _collect(self, content_type: str, portions: Iterator[str], collected: list[str], with_body: bool) -> None:
        """Renders for a limited time, and continues in the next turn of the loop."""
        if self._deadline is None:
            return
        begun = time.monotonic()
        try:
            for portion in portions:
                collected.append(portion)
                seconds = time.monotonic() - begun
                if seconds >= PORTION_SECONDS_MAX:
                    self._endpoint.pages.count_scrape_step(seconds)
                    self._loop.call_soon(self._collect, content_type, portions, collected, with_body)
                    return
        except Exception as defect:  # noqa: BLE001 - logged and answered there
            self._fail(defect)
            return
        self._send("200 OK", "".join(collected), content_type=content_type, with_body=with_body)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(
        self, status: str, text: str, *, content_type: str = _TEXT, extra: str = "", with_body: bool = True
    ) -> None:
        body = text.encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
            f"Cache-Control: no-store\r\n{extra}Connection: close\r\n\r\n"
        ).encode("latin-1")
        self._body = memoryview(head + body if with_body else head)
        self._on_writable()

    def _on_writable(self) -> None:
        try:
            self._body = self._body[self._socket.send(self._body) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()
            return
        if not self._body:
            self._finish()
        elif not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _finish(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            # The client has closed the connection.
            self.close()
            return
        self.close()
