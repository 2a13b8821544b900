"""An encrypted connection as a `ByteStream`, over a non-blocking `ssl.SSLSocket` (docs/decisions/0013).

OpenSSL moves one record of at most 16 KiB with each call. So reads fill the buffer they are given with several calls,
and writes are cut into whole records. When the socket accepts no more bytes, OpenSSL has encrypted a record already and
insists on sending exactly this one later: the stream keeps it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from ssl import SSLError, SSLSocket, SSLWantReadError, SSLWantWriteError
from typing import Any, Final

__all__ = ["RECORD_BYTES", "TlsStream"]

RECORD_BYTES: Final = 16 * 1024


class TlsStream:
    """Takes over the socket, whose handshake is complete."""

    __slots__ = ("_ahead", "_begun", "_is_drained", "_socket", "fileno")

    def __init__(self, connected: SSLSocket) -> None:
        self._socket = connected
        self.fileno = connected.fileno
        # True if the next read would find no bytes: the stream is empty, and the descriptor reports new bytes.
        self._is_drained = False
        # A record that OpenSSL has encrypted and not sent, and bytes of such a record that the caller will send again.
        self._begun = b""
        self._ahead = 0

    def recv(self, size: int, flags: int, /) -> bytes:
        """Looks at the encrypted bytes: enough to see that the client has closed the connection."""
        return socket.socket.recv(self._socket, size, flags)

    def recv_into(self, buffer: memoryview, /) -> int:
        if self._is_drained:
            self._is_drained = False
            raise BlockingIOError
        receive = self._socket.recv_into
        size, received = len(buffer), 0
        try:
            while received < size:
                count = receive(buffer[received:] if received else buffer)
                if count == 0:
                    # The end is reported again by the next read.
                    return received
                received += count
        except (SSLWantReadError, SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
            self._is_drained = True
            return received
        except SSLError:
            if not received:
                raise
            # The next read reports the broken record again, or the end.
            return received
        self._is_drained = not self._socket.pending()
        return received

    def recvmsg_into(self, buffers: Iterable[memoryview], /) -> tuple[int, Any, int, Any]:
        received = 0
        for buffer in buffers:
            try:
                count = self.recv_into(buffer)
            except BlockingIOError:
                if not received:
                    raise
                # The caller has not noticed yet that the stream is drained.
                self._is_drained = True
                break
            received += count
            if count < len(buffer):
                break
        return received, [], 0, None

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        send = self._socket.send
        view = memoryview(data)
        size, sent = len(view), 0
        try:
            if self._begun:
                self._ahead = send(self._begun)
                self._begun = b""
            if self._ahead:
                sent = min(self._ahead, size)
                self._ahead -= sent
            while sent < size:
                sent += send(view[sent : sent + RECORD_BYTES])
        except (SSLWantWriteError, SSLWantReadError):
            if not self._begun:
                self._begun = bytes(view[sent : sent + RECORD_BYTES])
            if not sent:
                raise BlockingIOError from None
        return sent

    def sendmsg(
        self, buffers: Iterable[bytes | bytearray | memoryview], ancillary: Sequence[Any], flags: int, /
    ) -> int:
        assert not ancillary
        # MSG_MORE has no meaning here: the runs are whole records.
        del flags
        sent = 0
        for run in _whole_records(buffers):
            try:
                count = self.send(run)
            except BlockingIOError:
                if not sent:
                    raise
                break
            sent += count
            if count < len(run):
                break
        return sent

    def close(self) -> None:
        """Sends close_notify if there is room, and closes the socket."""
        # The call usually fails because the client has not answered yet. No code waits for that answer.
        with suppress(OSError, ValueError):
            self._socket.unwrap()
        self._socket.close()


def _whole_records(buffers: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes | memoryview]:
    """The same bytes in runs of whole records, but for the last run. Large buffers are not copied."""
    begun: list[bytes | bytearray | memoryview] = []
    missing = RECORD_BYTES
    for buffer in buffers:
        if len(buffer) < missing:
            begun.append(buffer)
            missing -= len(buffer)
            continue
        rest = memoryview(buffer)
        if begun:
            begun.append(rest[:missing])
            yield b"".join(begun)
            begun.clear()
            rest = rest[missing:]
        whole = len(rest) - len(rest) % RECORD_BYTES
        if whole:
            yield rest[:whole]
        begun.append(rest[whole:])
        missing = RECORD_BYTES - (len(rest) - whole)
    if begun:
        yield b"".join(begun)
