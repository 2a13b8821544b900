"""Connections from this node to others.

A connection is opened by the first request for its endpoint and purpose, asks ApiVersions first so that both sides may
be of different releases, then sends what waited meanwhile. Requests are pipelined and answers are matched in order.
When anything goes wrong, every request under way fails and the connection is forgotten: the next request opens a new
one. There is no retry here, because only the asker knows whether asking again makes sense. Host names are resolved on a
worker, for a name server may take its time.
"""

from __future__ import annotations

import errno
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from ottla.host.buffers import LARGE_SIZE_MIN, SCRATCH_SIZE, LargeBuffers
from ottla.host.loop import EventLoop
from ottla.model.deferred import Deferred
from ottla.model.ports import Timer, Workers
from ottla.replica.fetcher_pool import PURPOSE as REPLICA_FETCH
from ottla.wire.api import API_SPECS, ApiKey, ApiSpec
from ottla.wire.codec import MalformedMessage, UnsupportedVersion, decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.peers import AskedRequest, Endpoint, PeerUnreachable

__all__ = ["PeerConnections", "PeerSettings"]

logger = logging.getLogger("ottla.host.peers")

_SIZE = struct.Struct(">i")
_API_VERSIONS_VERSION = 3
_LARGE_BUFFERS_MAX = 4

# By number: to make a member of an enumeration of it costs more than to find it.
_SPECS = cast(Mapping[int, ApiSpec], API_SPECS)

# A peer that does not take what we send is a peer that is gone: nothing here sends many small requests.
REQUESTS_WAITING_MAX = 1000


class PeerSettings(NamedTuple):
    """How connections are made."""

    setup_timeout_ms: int = 10_000
    # What that grows to: an attempt after one that failed may take twice as long (KIP-601).
    setup_timeout_ms_max: int = 30_000
    # SO_RCVBUF of followers' fetches; -1 leaves it to the operating system.
    replica_receive_buffer_bytes: int = -1


class _ReceiveBuffers:
    """Where responses are received; shared by all connections."""

    __slots__ = ("large", "scratch", "scratch_head")

    def __init__(self) -> None:
        # Small responses, and the beginnings of larger ones.
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        self.scratch_head = self.scratch[: _SIZE.size]
        # A response is done with before the next is looked at; several are begun where there are several leaders.
        self.large = LargeBuffers(buffers_max=_LARGE_BUFFERS_MAX)


class _PeerConnection:
    """One socket: connecting, then asking for versions, then open, then closed."""

    def __init__(
        self,
        loop: EventLoop,
        endpoint: Endpoint,
        client_id: str,
        response_bytes_max: int,
        forget: Callable[[_PeerConnection], None],
        workers: Workers | None,
        setup_timeout_ms: int,
        receive_buffer_bytes: int,
        buffers: _ReceiveBuffers,
    ) -> None:
        self._loop = loop
        self.endpoint = endpoint
        self._client_id = client_id
        self._response_bytes_max = response_bytes_max
        self._forget = forget
        self._versions: dict[int, tuple[int, int]] | None = None
        self._unsent: deque[AskedRequest] = deque()
        self._unanswered: deque[AskedRequest] = deque()
        self._outgoing = bytearray()
        self._buffers = buffers
        self._receive_buffer_bytes = receive_buffer_bytes
        # A response of which a part is here, or not even its whole size.
        self._frame: memoryview | None = None
        self._frame_filled = 0
        # The size of that response, or of the last one.
        self._frame_size = 0
        self._size_begun = b""
        # Of the last request, and of the last response.
        self._correlation_id = 0
        self._answered_id = 0
        self._connected = False
        self._writing = True
        self._closed = False
        self._setup_timer: Timer | None = loop.call_later(
            setup_timeout_ms / 1000, self.close, f"not connected within {setup_timeout_ms} ms"
        )
        self._socket: socket.socket | None = None
        if workers is None or _is_address(endpoint.host):
            self._connect(endpoint.host)
        else:
            workers.submit(_resolve, endpoint).when_done(self._on_resolved)

    def _on_resolved(self, resolved: Deferred[str]) -> None:
        if self._closed:
            return
        if resolved.error is not None:
            self.close(f"the host name cannot be resolved: {resolved.error}")
            return
        try:
            self._connect(resolved.result())
        except OSError as error:
            self.close(f"cannot connect: {error}")

    def _connect(self, address: str) -> None:
        connecting = self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._receive_buffer_bytes > 0:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        code = connecting.connect_ex((address, self.endpoint.port))
        if code not in (0, errno.EINPROGRESS):
            self._loop.call_soon(self.close, f"cannot connect: {errno.errorcode.get(code, code)}")
        else:
            self._loop.add_writer(connecting.fileno(), self._on_connected)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def was_connected(self) -> bool:
        return self._connected

    def send(self, asked: AskedRequest, timeout_ms: int) -> None:
        if self._closed:
            asked.fail(PeerUnreachable(f"{self.endpoint} cannot be connected to"))
            return
        if len(self._unsent) + len(self._unanswered) >= REQUESTS_WAITING_MAX:
            asked.fail(PeerUnreachable(f"{self.endpoint} has {REQUESTS_WAITING_MAX} unanswered requests"))
            return
        asked.timer = self._loop.call_later(timeout_ms / 1000, self.close, f"no answer within {timeout_ms} ms")
        if self._versions is None:
            self._unsent.append(asked)
        else:
            self._write_request(asked)

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._end_setup()
        if self._socket is not None:
            fileno = self._socket.fileno()
            self._loop.remove_reader(fileno)
            self._loop.remove_writer(fileno)
            self._socket.close()
        self._forget(self)
        error = PeerUnreachable(f"{self.endpoint}: {reason}")
        waiting = (*self._unanswered, *self._unsent)
        self._unanswered.clear()
        self._unsent.clear()
        for asked in waiting:
            try:
                if not asked.deferred.done:
                    asked.fail(error)
            except Exception:
                # A defect in what waited for one response is no reason to leave the others waiting for ever.
                logger.exception("what waited for %s failed", self.endpoint)

    def _on_connected(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.close(f"cannot connect: {errno.errorcode.get(code, code)}")
            return
        self._connected = True
        self._end_setup()
        self._loop.remove_writer(self._socket.fileno())
        self._writing = False
        self._loop.add_reader(self._socket.fileno(), self._on_readable)
        question: Deferred[Message] = Deferred()
        question.when_done(self._on_versions)
        asked = AskedRequest(
            ApiVersionsRequest(client_software_name="ottla", client_software_version="1"),
            API_SPECS[ApiKey.API_VERSIONS],
            _API_VERSIONS_VERSION,
            question,
        )
        asked.api_version = _API_VERSIONS_VERSION
        self._write(asked)

    def _end_setup(self) -> None:
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None

    def _on_versions(self, answer: Deferred[Message]) -> None:
        if answer.error is not None:
            return
        response = cast(ApiVersionsResponse, answer.result())
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        while self._unsent and not self._closed:
            self._write_request(self._unsent.popleft())

    def _write_request(self, asked: AskedRequest) -> None:
        assert self._versions is not None
        spec = asked.spec
        theirs = self._versions.get(int(spec.key))
        if theirs is None:
            asked.fail(PeerUnreachable(f"{self.endpoint} does not speak {spec.name}"))
            return
        version = min(asked.version_max, spec.schema_max_version, theirs[1])
        if version < max(spec.schema_min_version, theirs[0]):
            asked.fail(PeerUnreachable(f"{self.endpoint} speaks {spec.name} {theirs[0]}-{theirs[1]}, we do not"))
            return
        asked.api_version = version
        try:
            self._write(asked)
        except UnsupportedVersion as error:
            asked.fail(PeerUnreachable(f"{self.endpoint} speaks an older {spec.name}: {error}"))

    def _write(self, asked: AskedRequest) -> None:
        correlation_id = _following(self._correlation_id)
        parts = request_parts(int(asked.spec.key), asked.api_version, correlation_id, self._client_id, asked.request)
        self._correlation_id = correlation_id
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview)
            self._outgoing += part
        self._unanswered.append(asked)
        if not self._writing:
            self._on_writable()

    def _on_writable(self) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(self._outgoing)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self.close(str(error))
            return
        del self._outgoing[:sent]
        if self._outgoing and not self._writing:
            self._writing = True
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        elif not self._outgoing and self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _on_readable(self) -> None:
        try:
            self._read()
        except Exception:
            # A defect in what waited for a response. What was received behind that is lost: whoever waits for it would
            # otherwise be given the response to somebody else.
            logger.exception("what waited for %s failed", self.endpoint)
            self.close("an internal error")

    def _read(self) -> None:
        if self._frame is None:
            # After a large response another one is likely, and nothing of it should have to be copied.
            buffers = self._buffers
            into = buffers.scratch if self._frame_size < LARGE_SIZE_MIN else buffers.scratch_head
            received = self._receive(into)
            if received:
                self._take_frames(into[:received])
            if self._frame is None or self._frame_filled:
                return
            # Only its size was asked for; the rest has come with it, and needs no turn of its own.
        frame = self._frame
        self._frame_filled += self._receive(frame[self._frame_filled :])
        if self._frame_filled == len(frame):
            self._frame = None
            self._on_response(frame)

    def _receive(self, into: memoryview) -> int:
        """How many bytes came: none when there are none yet, or when the connection has ended."""
        assert self._socket is not None
        try:
            received = self._socket.recv_into(into)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.close(str(error))
            return 0
        if not received:
            self.close("the peer closed the connection")
        return received

    def _take_frames(self, received: memoryview) -> None:
        """Whole responses are answered; one that has only begun gets its place, and the rest is received into that."""
        if self._size_begun:
            received = memoryview(self._size_begun + received)
            self._size_begun = b""
        position = 0
        while not self._closed and position < len(received):
            if len(received) - position < _SIZE.size:
                self._size_begun = bytes(received[position:])
                return
            (size,) = _SIZE.unpack_from(received, position)
            if not 4 <= size <= self._response_bytes_max:
                self.close(f"a response of {size} bytes")
                return
            position += _SIZE.size
            here = received[position : position + size]
            # The frame gets bytes of its own: record bytes in it are kept and written to a log.
            frame = memoryview(self._buffers.large.take(size))[:size]
            frame[: len(here)] = here
            self._frame_size = size
            position += len(here)
            if len(here) == size:
                self._on_response(frame)
            else:
                self._frame, self._frame_filled = frame, len(here)

    def _on_response(self, frame: memoryview) -> None:
        if not self._unanswered:
            self.close("a response nobody asked for")
            return
        self._answered_id = _following(self._answered_id)
        if _SIZE.unpack_from(frame) != (self._answered_id,):
            self.close("a response to another request")
            return
        asked = self._unanswered.popleft()
        header_size = 5 if asked.spec.response_header_version(asked.api_version) else 4
        try:
            response, _ = decode(asked.spec.response_class, frame, asked.api_version, header_size)
        except MalformedMessage as error:
            asked.fail(PeerUnreachable(f"{self.endpoint}: malformed response: {error}"))
            self.close("malformed response")
            return
        asked.finish(response)


class PeerConnections:
    """The Peers port on sockets; one connection for each endpoint and purpose."""

    def __init__(
        self,
        loop: EventLoop,
        *,
        client_id: str,
        response_bytes_max: int,
        workers: Workers | None = None,
        settings: PeerSettings | None = None,
    ) -> None:
        self._settings = settings or PeerSettings()
        self._loop = loop
        # Without workers, hosts must be given as addresses.
        self._workers = workers
        self._client_id = client_id
        self._response_bytes_max = response_bytes_max
        self._connections: dict[tuple[Endpoint, str], _PeerConnection] = {}
        # How long the next attempt may take, where the last one has failed.
        self._setup_timeouts_ms: dict[tuple[Endpoint, str], int] = {}
        self._buffers = _ReceiveBuffers()

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        deferred: Deferred[Message] = Deferred()
        asked = AskedRequest(request, _SPECS[request.API_KEY], version_max, deferred)
        try:
            connection = self._connections.get((endpoint, purpose)) or self._open(endpoint, purpose)
        except OSError as error:
            return Deferred.failed(PeerUnreachable(f"{endpoint}: {error}"))
        connection.send(asked, timeout_ms)
        return deferred

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        connection = self._connections.get((endpoint, purpose))
        if connection is not None:
            connection.close("no longer needed")
        self._setup_timeouts_ms.pop((endpoint, purpose), None)

    def close(self) -> None:
        for connection in list(self._connections.values()):
            connection.close("this node is stopping")

    def _open(self, endpoint: Endpoint, purpose: str) -> _PeerConnection:
        key = (endpoint, purpose)
        settings = self._settings
        timeout_ms = self._setup_timeouts_ms.get(key, settings.setup_timeout_ms)

        def forget(connection: _PeerConnection) -> None:
            if self._connections.get(key) is connection:
                del self._connections[key]
            if connection.was_connected:
                self._setup_timeouts_ms.pop(key, None)
            else:
                longer_ms = min(2 * timeout_ms, settings.setup_timeout_ms_max)
                self._setup_timeouts_ms[key] = max(longer_ms, timeout_ms)

        connection = _PeerConnection(
            self._loop,
            endpoint,
            f"{self._client_id}-{purpose}",
            self._response_bytes_max,
            forget,
            self._workers,
            timeout_ms,
            settings.replica_receive_buffer_bytes if purpose.startswith(REPLICA_FETCH) else -1,
            self._buffers,
        )
        if not connection.closed:
            self._connections[key] = connection
        return connection


def _following(correlation_id: int) -> int:
    return (correlation_id + 1) & 0x7FFFFFFF


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


def _resolve(endpoint: Endpoint) -> str:
    """The first address of a host name; blocks."""
    return str(socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)[0][4][0])
