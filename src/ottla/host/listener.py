"""A listening socket and its connections.

Binding and accepting are two steps: the port is bound early, so that a conflict stops the start before anything is
changed, and the number for port 0 is known before the broker registers; connections are accepted only when the node can
answer.
"""

from __future__ import annotations

import errno
import logging
import socket
from time import perf_counter
from typing import TYPE_CHECKING

from ottla.broker.context import ANONYMOUS, ConnectionContext, ListenerInfo, Principal
from ottla.host.admission import Admission
from ottla.host.byte_stream import ENCRYPTED, PLAIN, ByteStream, StreamTraits
from ottla.host.connection import Connection, SharedReadState
from ottla.host.logs import RateLimit
from ottla.host.loopback import is_loopback, send_without_pacing
from ottla.wire.connection.server import ConnectionLimits, Handler

if TYPE_CHECKING:
    from ottla.broker.authentication.logins import Logins
    from ottla.broker.broker import Broker
    from ottla.host.loop import EventLoop
    from ottla.host.tls_listener import TlsListener
    from ottla.model.ports import Timer, World

__all__ = ["BindError", "Listener", "SocketOptions", "bind"]

logger = logging.getLogger("ottla.host.listener")

# The most connections accepted in one turn of the loop, before it serves open connections.
ACCEPTS_PER_TURN = 64
# No further connection is accepted in a turn after this time: one with TLS takes some 0.1 ms.
ACCEPT_SECONDS_PER_TURN = 0.0005

# When the process is out of descriptors, accepting pauses for this long; clients wait in the backlog.
ACCEPT_RETRY_SECONDS = 0.2

# The most unsent bytes of an answer in the kernel (TCP_NOTSENT_LOWAT); bytes in flight are not limited. It is not set
# on the loopback device, where a consumer of 6 MB answers would wake up the loop for every 100 KiB.
UNSENT_BYTES_MAX = 64 * 1024

# Bounds of the interval between searches for idle connections.
IDLE_SWEEP_SECONDS_MIN = 0.05
IDLE_SWEEP_SECONDS_MAX = 30.0

REFUSAL_LINES_PER_SECOND = 5

# The most connections held because of their rate; further connections are closed at once.
HELD_CONNECTIONS_MAX = 256


class BindError(OSError):
    """The address cannot be bound; the message is one sentence for the operator."""


class SocketOptions:
    """Options of sockets; a buffer size of -1 leaves it to the operating system."""

    __slots__ = ("backlog_size", "receive_buffer_bytes", "send_buffer_bytes")

    def __init__(self, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1, backlog_size: int = 50) -> None:
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes
        self.backlog_size = backlog_size


def bind(host: str, port: int, options: SocketOptions) -> socket.socket:
    """Binds the port without accepting yet; an empty host means every address of this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            _plain(host) or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if not host and socket.has_dualstack_ipv6():
            family, address = socket.AF_INET6, ("::", port, 0, 0)
    except OSError as error:
        raise BindError(f"The host name {host!r} of a listener cannot be resolved: {error.strerror}.") from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
        if options.receive_buffer_bytes > 0:
            # Set before listening, because the window scale is fixed when a connection is established.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        bound.setblocking(False)
        bound.bind(address)
        if is_loopback(bound):
            send_without_pacing(bound)
        # A second process could bind the same port, though not listen; listening makes the claim exclusive. Early
        # clients wait in the backlog until the node answers.
        bound.listen(options.backlog_size)
    except OSError as error:
        bound.close()
        shown = f"{host or '*'}:{port}"
        if error.errno == errno.EADDRINUSE:
            raise BindError(f"Port {port} is in use by another process, so {shown} cannot be listened on.") from None
        raise BindError(f"Cannot listen on {shown}: {error.strerror}.") from None
    return bound


def _plain(host: str) -> str | bytes:
    """ASCII names as bytes: for text Python would import its tables of international names."""
    return host.encode() if host.isascii() else host


class Listener:
    """Accepts, counts, and expires connections; owns them until they close."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        world: World,
        broker: Broker,
        dispatcher: Handler,
        bound_socket: socket.socket,
        info: ListenerInfo,
        admission: Admission,
        shared: SharedReadState,
        limits: ConnectionLimits,
        options: SocketOptions,
        idle_ms_max: int,
        tls: TlsListener | None = None,
    ) -> None:
        self.info = info
        self._loop = loop
        self._world = world
        self._broker = broker
        self._dispatcher = dispatcher
        self._socket = bound_socket
        self._is_local = is_loopback(bound_socket)
        self._admission = admission
        self._shared = shared
        self._limits = limits
        self._options = options
        self._idle_seconds_max = idle_ms_max / 1000 if idle_ms_max >= 0 else None
        self._connections: set[Connection] = set()
        self._accepted = 0
        self._accepting = False
        # Connections beyond the rate: not served, and closed later, so that the client does not reconnect at once.
        self._held: set[socket.socket] = set()
        self._sweep: Timer | None = None
        # None on a listener without encryption.
        self._tls = tls
        # None on a listener whose clients do not log in.
        self._logins = _logins(broker, info)
        self._refusals = RateLimit(world.clock, lines_per_second=REFUSAL_LINES_PER_SECOND)

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def longest_silent(self) -> Connection | None:
        """The connection with the longest silence."""
        return min(self._connections, key=lambda connection: connection.last_active, default=None)

    def open(self) -> None:
        """Begins to accept connections."""
        self._resume_accepting()
        if self._idle_seconds_max is not None:
            self._plan_sweep()

    def stop_accepting(self) -> None:
        """Accepts no further connections and reads no further requests; pending answers are still sent."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if self._tls is not None:
            # A handshake that completes later would open a connection that is read.
            self._tls.close()
        for connection in list(self._connections):
            connection.stop_reading()

    def close_connections(self) -> None:
        """Closes all connections."""
        for held in list(self._held):
            self._close_held(held)
        if self._tls is not None:
            self._tls.close()
        for connection in list(self._connections):
            connection.close()

    def connection_closed(self, connection: Connection, reason: str | None) -> None:
        context = connection.context
        self._connections.discard(connection)
        self._admission.release(self.info.name, context.client_host)
        if reason is not None:
            self._broker.statistics.frames_refused += 1
            if (suppressed := self._refusals.admit()) is not None:
                suffix = f" ({suppressed} similar lines suppressed)" if suppressed else ""
                logger.warning("closed the connection %s: %s%s", context.connection_id, reason, suffix)

    # -- accepting -------------------------------------------------------------------------------------------------

    def _resume_accepting(self) -> None:
        if not self._accepting and self._socket.fileno() >= 0:
            self._accepting = True
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def _pause_accepting(self) -> None:
        self._accepting = False
        self._loop.remove_reader(self._socket.fileno())

    def _on_acceptable(self) -> None:
        ends = perf_counter() + ACCEPT_SECONDS_PER_TURN
        for accepted_before in range(ACCEPTS_PER_TURN):
            if accepted_before and perf_counter() > ends:
                return
            if not self._admission.has_room(self.info.name):
                self._pause_accepting()
                self._admission.when_room(self._resume_accepting)
                return
            wait_seconds = self._admission.seconds_to_wait(self.info.name, self._loop.time())
            if wait_seconds > 0:
                self._pause_accepting()
                self._loop.call_later(wait_seconds, self._resume_accepting)
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: open connections are served, new connections wait in the backlog.
                if (suppressed := self._refusals.admit()) is not None:
                    logger.warning("cannot accept connections now: %s (%d similar lines suppressed)", error, suppressed)
                self._pause_accepting()
                self._loop.call_later(ACCEPT_RETRY_SECONDS, self._resume_accepting)
                return
            self._admission.count_accepted(self.info.name)
            host = str(address[0]).removeprefix("::ffff:")
            if self._broker.quota.limits_connections and self._is_held(accepted, host):
                continue
            self._admit(accepted, host, int(address[1]))

    def _is_held(self, accepted: socket.socket, host: str) -> bool:
        """True if the address exceeds its rate (KIP-612). Then the connection is held unserved and closed later."""
        seconds = self._broker.quota.connected(host)
        if seconds <= 0:
            return False
        self._broker.statistics.connections_refused += 1
        if len(self._held) >= HELD_CONNECTIONS_MAX:
            accepted.close()
            return True
        self._held.add(accepted)
        self._loop.call_later(seconds, self._close_held, accepted)
        return True

    def _close_held(self, held: socket.socket) -> None:
        self._held.discard(held)
        held.close()

    def _admit(self, accepted: socket.socket, host: str, port: int) -> None:
        if not self._admission.admit(self.info.name, host):
            accepted.close()
            self._broker.statistics.connections_refused += 1
            if (suppressed := self._refusals.admit()) is not None:
                logger.warning(
                    "refused a connection from %s: it has max.connections.per.ip already (%d similar lines suppressed)",
                    host,
                    suppressed,
                )
            return
        try:
            self._set_options(accepted)
        except OSError:
            # The client has disconnected.
            accepted.close()
            self._admission.release(self.info.name, host)
            return
        self._accepted += 1
        self._broker.statistics.connections_accepted += 1
        if self._tls is None:
            self._open(accepted, PLAIN, ANONYMOUS, host, port)
            return
        self._tls.begin(
            accepted,
            lambda stream, principal: self._open(stream, ENCRYPTED, principal, host, port),
            lambda reason: self._handshake_failed(reason, host, port),
        )

    def _open(self, stream: ByteStream, traits: StreamTraits, principal: Principal, host: str, port: int) -> None:
        try:
            context = self._new_context(principal, host, port)
        except Exception as error:
            stream.close()
            self._admission.release(self.info.name, host)
            if (suppressed := self._refusals.admit()) is not None:
                logger.error(
                    "refused a connection from %s: principal.builder.class failed (%d similar lines suppressed)",
                    host,
                    suppressed,
                    exc_info=error,
                )
            return
        audit = self._broker.audit
        if audit is not None and principal is not ANONYMOUS:
            audit.note_login(address=host, listener=self.info.name, mechanism="TLS", principal=str(context.principal))
        self._connections.add(
            Connection(
                loop=self._loop,
                world=self._world,
                stream=stream,
                traits=traits,
                context=context,
                dispatcher=self._dispatcher,
                owner=self,
                shared=self._shared,
                limits=self._limits,
                gate=None if self._logins is None else self._logins.new_gate(),
            )
        )

    def _new_context(self, principal: Principal, host: str, port: int) -> ConnectionContext:
        return ConnectionContext(
            listener=self.info,
            client_host=host,
            client_port=port,
            connection_id=f"{self.info.host}:{self.info.port}-{host}:{port}-{self._accepted}",
            principal=principal,
            authorizer=self._broker.authorizer,
            quota=self._broker.quota,
            principal_builder=self._broker.principal_builder,
        )

    def _handshake_failed(self, reason: str | None, host: str, port: int) -> None:
        self._admission.release(self.info.name, host)
        if reason is None:
            return
        self._broker.statistics.handshakes_failed += 1
        if self._broker.audit is not None:
            self._broker.audit.note_login(
                address=host, listener=self.info.name, mechanism="TLS", principal=None, reason=reason
            )
        if (suppressed := self._refusals.admit()) is not None:
            suffix = f" ({suppressed} similar lines suppressed)" if suppressed else ""
            name = self.info.name
            logger.warning("no TLS connection of %s:%d to the listener %s: %s%s", host, port, name, reason, suffix)

    def _set_options(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._is_local and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
        if self._options.send_buffer_bytes > 0:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes)

    # -- idle connections ------------------------------------------------------------------------------------------

    def _plan_sweep(self) -> None:
        assert self._idle_seconds_max is not None
        delay = min(max(self._idle_seconds_max / 4, IDLE_SWEEP_SECONDS_MIN), IDLE_SWEEP_SECONDS_MAX)
        self._sweep = self._loop.call_later(delay, self._close_idle)

    def _close_idle(self) -> None:
        """Closes connections without traffic for connections.max.idle.ms, including half-open and stuck connections."""
        assert self._idle_seconds_max is not None
        oldest_allowed = self._loop.time() - self._idle_seconds_max
        for connection in [idle for idle in self._connections if idle.last_active < oldest_allowed]:
            logger.debug("closed the connection %s: it was idle", connection.context.connection_id)
            connection.close()
        if not self._connections:
            self._shared.buffers.large.clear()
        self._plan_sweep()


def _logins(broker: Broker, info: ListenerInfo) -> Logins | None:
    """The logins of a listener. The mechanisms are imported only if it has logins, which most nodes do not use."""
    if not info.security_protocol.startswith("SASL_"):
        return None
    from ottla.broker.authentication.logins import Logins

    return Logins(broker, info.name, fetch=_read_key_document)


def _read_key_document(url: str, timeout_seconds: float) -> bytes:
    """Reads keys from an identity provider. The module is imported on first use, because it imports HTTP."""
    from ottla.host.key_documents import read_key_document

    return read_key_document(url, timeout_seconds)
