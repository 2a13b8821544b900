"""A client that sends exactly the requests of a test: a socket, a request, an answer.

Real clients hide their requests and retry failed ones; this client does neither. `send` and `receive` may be called
separately, to pipeline requests or to observe a connection that is closed instead of answered.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message

__all__ = ["ConnectionClosed", "RawClient"]


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


class RawClient:
    """A blocking client with a single connection to a broker."""

    def __init__(
        self, bootstrap: str, *, client_id: str | None = "raw", timeout_seconds: float = 30.0, source: str = ""
    ) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0
        self._waiting: list[tuple[int, type[Message], int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, request: Message, version: int) -> Any:
        """Sends one request and returns its decoded answer."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int, *, answered: bool = True) -> None:
        self._correlation_id += 1
        parts = request_parts(request.API_KEY, version, self._correlation_id, self._client_id, request)
        self.socket.sendall(b"".join(bytes(part) for part in parts))
        if answered:
            spec = API_SPECS[ApiKey(request.API_KEY)]
            self._waiting.append((self._correlation_id, spec.response_class, version, spec.flexible_since))

    def receive(self) -> Any:
        """The answer to the oldest request that has not been answered yet."""
        correlation_id, response_class, version, flexible_since = self._waiting.pop(0)
        frame = self.receive_frame()
        assert int.from_bytes(frame[:4], "big", signed=True) == correlation_id, "answers are out of order"
        position = 4
        if version >= flexible_since and response_class.API_KEY != ApiKey.API_VERSIONS:
            assert frame[4] == 0, "unexpected tags in a response header"
            position = 5
        response, end = decode(response_class, memoryview(frame), version, position)
        assert end == len(frame), f"{len(frame) - end} bytes are left over after a {response_class.__name__}"
        return response

    def receive_frame(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self.socket.recv(size - len(received))
            if not piece:
                raise ConnectionClosed(f"after {len(received)} of {size} bytes")
            received += piece
        return bytes(received)
