"""The layer below a connection: a stream of bytes on a non-blocking socket.

A connection without encryption uses its socket as it is: `socket.socket` has every method of `ByteStream`, and a
wrapper would cost a call for each read and write. TLS is another implementation, `tls_stream.TlsStream`
(docs/decisions/0013). `StreamTraits` describes the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["ENCRYPTED", "PLAIN", "ByteStream", "StreamTraits"]


class ByteStream(Protocol):
    """Methods raise BlockingIOError if no bytes can be moved now, and another OSError if the stream has failed."""

    def fileno(self) -> int: ...

    def recv(self, size: int, flags: int, /) -> bytes:
        """Called only with MSG_PEEK, to check whether the client has closed the connection."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Returns 0 if the client has closed the connection."""

    def recvmsg_into(self, buffers: Iterable[memoryview], /) -> tuple[int, Any, int, Any]: ...

    def send(self, data: bytes | bytearray | memoryview, /) -> int: ...

    def sendmsg(
        self, buffers: Iterable[bytes | bytearray | memoryview], ancillary: Sequence[Any], flags: int, /
    ) -> int: ...

    def close(self) -> None: ...


class StreamTraits(NamedTuple):
    """The capabilities of a kind of stream."""

    # True if `os.sendfile` may write to the descriptor. Encrypted bytes have to pass through memory.
    sends_files: bool
    # True if the stream may hold bytes although its descriptor is not readable. Then reads continue until it is empty.
    keeps_bytes: bool


PLAIN = StreamTraits(sends_files=True, keeps_bytes=False)
ENCRYPTED = StreamTraits(sends_files=False, keeps_bytes=True)
