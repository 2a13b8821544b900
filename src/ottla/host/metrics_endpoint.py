"""Metrics and health over HTTP or HTTPS: `/metrics`, `/health/live`, `/health/ready`.

As much of HTTP/1.1 as a scrape, a probe or a browser needs: GET and HEAD, one request per connection, no bodies. It
runs on the node's own loop, so that an answer to `/health/live` proves that the loop turns. A scrape is rendered in
portions of a few milliseconds with the node's work in between. All scrapes that wait when a rendering begins get its
text, so that many scrapers cost no more than two.

All resources are bounded, because the port may be open to many clients. When there are too many connections, the oldest
one that has not sent its request is closed, so that half-sent requests do not keep scrapers out. The same holds for TLS
handshakes that are not complete.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.host.byte_stream import ByteStream
    from ottla.host.loop import EventLoop
    from ottla.host.tls_listener import TlsListener
    from ottla.model.ports import Timer

__all__ = ["MetricsEndpoint", "Pages"]

logger = logging.getLogger("ottla.host.metrics_endpoint")

REQUEST_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 32
# For the request, and for everything.
REQUEST_SECONDS_MAX = 5.0
CONNECTION_SECONDS_MAX = 30.0
# When the process is out of descriptors, accepting pauses for this long; clients wait in the backlog.
ACCEPT_RETRY_SECONDS = 0.2
# The longest time that a scrape may occupy the loop without a pause.
PORTION_SECONDS_MAX = 0.002

_TEXT = "text/plain; charset=utf-8"
_END_OF_REQUEST = b"\r\n\r\n"
_TLS_HANDSHAKE = b"\x16\x03"
# Buffers of one system call.
_BUFFERS_MAX = 64


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

    def __init__(
        self, *, loop: EventLoop, bound_socket: socket.socket, pages: Pages, tls: TlsListener | None = None
    ) -> None:
        self._loop = loop
        # None for HTTP without encryption.
        self._tls = tls
        self._socket = bound_socket
        self.pages = pages
        # In the order in which they were accepted.
        self._connections: dict[_HttpConnection, None] = {}
        # Scrapes that wait for the next rendering.
        self._waiting: list[_HttpConnection] = []
        self._rendering: _Rendering | None = None
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
        if self._tls is not None:
            self._tls.close()
        for connection in list(self._connections):
            connection.close()

    def connection_closed(self, connection: _HttpConnection) -> None:
        self._connections.pop(connection, None)

    # -- scrapes ---------------------------------------------------------------------------------------------------

    def scrape(self, connection: _HttpConnection) -> None:
        """Answers the connection with the next rendering."""
        self._waiting.append(connection)
        if self._rendering is None:
            self._begin_rendering()

    def rendered(self) -> None:
        """The rendering has answered its scrapes."""
        self._rendering = None
        if self._waiting and not self._closed:
            self._begin_rendering()

    def _begin_rendering(self) -> None:
        scrapes, self._waiting = self._waiting, []
        self._rendering = _Rendering(self._loop, self, scrapes)
        self._rendering.begin()

    # -- accepting -------------------------------------------------------------------------------------------------

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
        if self._tls is not None and self._tls.handshakes >= CONNECTIONS_MAX:
            self._tls.close_oldest_handshake()
        accepted.setblocking(False)
        if self._tls is None:
            self._open(accepted)
        else:
            # A failed handshake is the client's own affair, and it is closed already.
            self._tls.begin(accepted, lambda stream, _: self._open(stream), lambda _: None)

    def _open(self, stream: ByteStream) -> None:
        # Counted here, because many handshakes may complete after they were accepted.
        if len(self._connections) >= CONNECTIONS_MAX and not self._evict():
            stream.close()
            return
        connection = _HttpConnection(self._loop, stream, self)
        self._connections[connection] = None
        # The request has often arrived already. Then the connection need not fear eviction.
        connection.on_readable()

    def _evict(self) -> bool:
        """Closes the oldest connection without a complete request. Returns False if all have sent theirs."""
        for connection in self._connections:
            if connection.is_reading:
                connection.close()
                return True
        return False

    def _accept_again(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)


class _Rendering:
    """Renders the metrics once, for all scrapes that were waiting when it began."""

    def __init__(self, loop: EventLoop, endpoint: MetricsEndpoint, scrapes: Sequence[_HttpConnection]) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._scrapes = scrapes
        self._portions: Iterator[str] = iter(())
        self._content_type = _TEXT
        self._collected: list[bytes] = []

    def begin(self) -> None:
        pages = self._endpoint.pages
        begun = time.monotonic()
        try:
            page = pages.metrics()
        except Exception as defect:  # noqa: BLE001 - logged and answered there
            self._fail(defect)
            return
        pages.count_scrape_step(time.monotonic() - begun)
        if page is None:
            self._end("503 Service Unavailable", [b"the node is starting\n"])
            return
        self._content_type, self._portions = page
        self._collect()

    def _collect(self) -> None:
        """Renders for a limited time, and continues in the next turn of the loop."""
        if all(scrape.is_closed for scrape in self._scrapes):
            self._endpoint.rendered()
            return
        begun = time.monotonic()
        try:
            for portion in self._portions:
                if portion:
                    self._collected.append(portion.encode())
                seconds = time.monotonic() - begun
                if seconds >= PORTION_SECONDS_MAX:
                    self._endpoint.pages.count_scrape_step(seconds)
                    self._loop.call_soon(self._collect)
                    return
        except Exception as defect:  # noqa: BLE001 - logged and answered there
            self._fail(defect)
            return
        self._end("200 OK", self._collected)

    def _fail(self, defect: Exception) -> None:
        """Fails only these scrapes after a defect."""
        logger.error("a scrape failed", exc_info=defect)
        self._end("500 Internal Server Error", [b"the metrics cannot be read\n"])

    def _end(self, status: str, body: Sequence[bytes]) -> None:
        for scrape in self._scrapes:
            if not scrape.is_closed:
                scrape.send(status, body, content_type=self._content_type)
        self._endpoint.rendered()


class _HttpConnection:
    """One request and its answer."""

    __slots__ = (
        "_deadline",
        "_endpoint",
        "_is_writing",
        "_loop",
        "_received",
        "_sent",
        "_stream",
        "_unsent",
        "_with_body",
        "is_reading",
    )

    def __init__(self, loop: EventLoop, accepted: ByteStream, endpoint: MetricsEndpoint) -> None:
        self._loop = loop
        self._stream = accepted
        self._endpoint = endpoint
        self._received = bytearray()
        # The buffers of the answer, shared with other scrapes, and the number of sent buffers.
        self._unsent: list[bytes | memoryview] = []
        self._sent = 0
        self._with_body = True
        # True if the request is not complete.
        self.is_reading = True
        self._is_writing = False
        self._deadline: Timer | None = loop.call_later(REQUEST_SECONDS_MAX, self.close)
        loop.add_reader(accepted.fileno(), self.on_readable)

    @property
    def is_closed(self) -> bool:
        return self._deadline is None

    def close(self) -> None:
        if self._deadline is None:
            return
        self._deadline.cancel()
        self._deadline = None
        self._stop_reading()
        if self._is_writing:
            self._loop.remove_writer(self._stream.fileno())
        self._stream.close()
        self._endpoint.connection_closed(self)

    def _stop_reading(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self._loop.remove_reader(self._stream.fileno())

    def on_readable(self) -> None:
        try:
            buffer = memoryview(bytearray(REQUEST_BYTES_MAX))
            received = buffer[: self._stream.recv_into(buffer)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not received:
            self.close()
            return
        self._received += received
        if self._received.startswith(_TLS_HANDSHAKE):
            # A client that waits for its handshake would wait until the deadline.
            self.close()
        elif _END_OF_REQUEST in self._received:
            self._on_request()
            try:
                self._answer(bytes(self._received).partition(b"\r\n")[0])
            except Exception as defect:  # noqa: BLE001 - logged and answered there
                self._fail(defect)
        elif len(self._received) >= REQUEST_BYTES_MAX:
            self._on_request()
            self._send("431 Request Header Fields Too Large", "the request is too large\n")

    def _on_request(self) -> None:
        """The request is complete, or as long as it may be."""
        self._stop_reading()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = self._loop.call_later(CONNECTION_SECONDS_MAX, self.close)

    def _fail(self, defect: Exception) -> None:
        """A defect fails this request only."""
        logger.error("a request for %r failed", bytes(self._received[:100]), exc_info=defect)
        self._send("500 Internal Server Error", "the page cannot be made\n")

    def _answer(self, request_line: bytes) -> None:
        words = request_line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._send("400 Bad Request", "this is not HTTP/1.1\n")
            return
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            self._send("405 Method Not Allowed", "only GET and HEAD\n", extra="Allow: GET, HEAD\r\n")
            return
        self._with_body = method == "GET"
        if path == "/metrics":
            self._endpoint.scrape(self)
        elif path == "/health/live":
            self._send("200 OK", "live\n")
        elif path == "/health/ready":
            reason = self._endpoint.pages.unready()
            if reason is None:
                self._send("200 OK", "ready\n")
            else:
                self._send("503 Service Unavailable", reason + "\n")
        elif path == "/":
            self._send("200 OK", "/metrics\n/health/live\n/health/ready\n")
        else:
            self._send("404 Not Found", "there are /metrics, /health/live and /health/ready\n")

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, status: str, text: str, *, extra: str = "") -> None:
        self.send(status, [text.encode()], extra=extra)

    def send(self, status: str, body: Sequence[bytes], *, content_type: str = _TEXT, extra: str = "") -> None:
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {sum(map(len, body))}\r\n"
            f"Cache-Control: no-store\r\n{extra}Connection: close\r\n\r\n"
        ).encode("latin-1")
        self._unsent = [head, *body] if self._with_body else [head]
        self._on_writable()

    def _on_writable(self) -> None:
        unsent = self._unsent
        try:
            count = self._stream.sendmsg(unsent[self._sent : self._sent + _BUFFERS_MAX], (), 0)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError:
            self.close()
            return
        while self._sent < len(unsent) and count >= len(unsent[self._sent]):
            count -= len(unsent[self._sent])
            self._sent += 1
        if self._sent == len(unsent):
            self._finish()
            return
        unsent[self._sent] = memoryview(unsent[self._sent])[count:]
        if not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._stream.fileno(), self._on_writable)

    def _finish(self) -> None:
        if isinstance(self._stream, socket.socket):
            # Fails if the client has closed the connection.
            with suppress(OSError):
                self._stream.shutdown(socket.SHUT_WR)
        self.close()
