"""Connections from this node to others: sockets that drive the machine `ottla.wire.connection.client`.

A connection is opened by the first request for its endpoint and purpose. When anything goes wrong, every request that
waits on it fails, and the next request opens a new connection. Host names are resolved on a worker, because a name
server may be slow.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from ottla import __version__
from ottla.host.loop import EventLoop
from ottla.model.deferred import Deferred
from ottla.model.ports import Timer, Workers
from ottla.replica.fetcher_pool import PURPOSE as REPLICA_FETCH
from ottla.wire.api import API_SPECS, ApiSpec
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.client import ClientConnection
from ottla.wire.message import Message
from ottla.wire.peers import AskedRequest, Endpoint, PeerUnreachable

__all__ = ["PeerConnections", "PeerSettings"]

logger = logging.getLogger("ottla.host.peers")

# A response is handled before the next one is received. With several leaders, several responses are incomplete at once.
_LARGE_BUFFERS_MAX = 4

# By number, because converting a number to a member of the enumeration costs more than the lookup.
_SPECS = cast(Mapping[int, ApiSpec], API_SPECS)

# The most unanswered requests of a peer; more are refused. Nodes send few requests, and wait for most answers.
REQUESTS_WAITING_MAX = 1000


class PeerSettings(NamedTuple):
    """How connections are made."""

    setup_timeout_ms: int = 10_000
    # The limit of this timeout, which doubles after every failed attempt (KIP-601).
    setup_timeout_ms_max: int = 30_000
    # SO_RCVBUF of followers' fetches; -1 leaves it to the operating system.
    replica_receive_buffer_bytes: int = -1


class _PeerConnection:
    """One socket: connecting, then open, then closed."""

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
        buffers: ReceiveBuffers,
    ) -> None:
        self._loop = loop
        self.endpoint = endpoint
        self._forget = forget
        self._machine = ClientConnection(
            str(endpoint),
            client_id=client_id,
            software=("ottla", __version__),
            response_bytes_max=response_bytes_max,
            waiting_max=REQUESTS_WAITING_MAX,
            buffers=buffers,
        )
        self._receive_buffer_bytes = receive_buffer_bytes
        self._connected = False
        self._is_writing = False
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
            asked.fail(PeerUnreachable(f"cannot connect to {self.endpoint}"))
            return
        asked.timer = self._loop.call_later(timeout_ms / 1000, self.close, f"no answer within {timeout_ms} ms")
        self._machine.send(asked)
        self._flush()

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
        self._machine.fail(reason)

    def _on_connected(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.close(f"cannot connect: {errno.errorcode.get(code, code)}")
            return
        self._connected = True
        self._end_setup()
        self._loop.remove_writer(self._socket.fileno())
        self._loop.add_reader(self._socket.fileno(), self._on_readable)
        self._machine.open()
        self._flush()

    def _end_setup(self) -> None:
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None

    def _flush(self) -> None:
        if self._connected and not self._is_writing and self._machine.outgoing.parts:
            self._on_writable()

    def _on_writable(self) -> None:
        assert self._socket is not None
        outgoing = self._machine.outgoing
        parts = outgoing.parts
        try:
            while parts:
                # A request has no regions of files.
                data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
                outgoing.sent(self._socket.send(data))  # type: ignore[arg-type]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.close(str(error))
            return
        if parts and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._socket.fileno(), self._on_writable)
        elif not parts and self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _on_readable(self) -> None:
        try:
            self._receive()
        except Exception:
            # A defect in the callback of a response. What was received behind it is lost: a later request would get the
            # response to another one.
            logger.exception("a callback of a request to %s failed", self.endpoint)
            self.close("an internal error")

    def _receive(self) -> None:
        assert self._socket is not None
        machine = self._machine
        frames = machine.frames
        while True:
            targets = frames.targets()
            try:
                if len(targets) == 1:
                    received = self._socket.recv_into(targets[0])
                else:
                    received = self._socket.recvmsg_into(targets)[0]
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(str(error))
                return
            # A live view would prevent the frame's buffer from being reused for the next frame.
            del targets
            if not received:
                self.close("the peer closed the connection")
                return
            machine.received(received)
            if machine.close_reason is not None:
                self.close(machine.close_reason)
                return
            if self._closed:
                return
            self._flush()
            if not frames.has_begun_frame:
                return
            # Only the size of a large frame was requested. The rest has arrived with it and needs no turn of its own.


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
        # The timeout of the next attempt, by endpoint and purpose, if the last attempt has failed.
        self._setup_timeouts_ms: dict[tuple[Endpoint, str], int] = {}
        self._buffers = ReceiveBuffers(buffers_max=_LARGE_BUFFERS_MAX)

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
