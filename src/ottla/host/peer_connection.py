"""One connection from this node to another: a socket that drives the machine `ottla.wire.connection.client`.

    resolving, connecting, TLS handshake, login, open, closed

The handshake and the login take place if the other node's listener demands them (`peer_security`). The time-out of the
set-up covers all steps up to the end of the handshake. The login is an ordinary request.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ottla import __version__
from ottla.host.byte_stream import ByteStream
from ottla.host.loop import EventLoop
from ottla.model.deferred import Deferred
from ottla.model.ports import Timer, Workers
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.client import ClientConnection
from ottla.wire.peers import AskedRequest, Endpoint, PeerUnreachable

if TYPE_CHECKING:
    import ssl

    from ottla.host.peer_security import PeerSecurity

__all__ = ["REQUESTS_WAITING_MAX", "PeerConnection"]

logger = logging.getLogger("ottla.host.peers")

# The most unanswered requests of a peer; more are refused. Nodes send few requests, and wait for most answers.
REQUESTS_WAITING_MAX = 1000

# A login is repeated after this share of its life (KIP-368).
RELOGIN_SHARE = 0.85
# Nodes refuse to repeat a login more often.
RELOGIN_SECONDS_MIN = 1.05


class PeerConnection:
    """One connection: its socket is connecting, then open, then closed."""

    def __init__(
        self,
        loop: EventLoop,
        endpoint: Endpoint,
        client_id: str,
        response_bytes_max: int,
        forget: Callable[[PeerConnection], None],
        workers: Workers | None,
        setup_timeout_ms: int,
        receive_buffer_bytes: int,
        buffers: ReceiveBuffers,
        security: PeerSecurity | None = None,
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
        self._context = None if security is None else security.context
        if security is not None and security.login is not None:
            self._machine.log_in_as(security.login, host=endpoint.host, wake=self._on_login_step)
        self._relogin_timer: Timer | None = None
        # Why the handshake or the login was refused.
        self.failure: str | None = None
        self._receive_buffer_bytes = receive_buffer_bytes
        self._connected = False
        self._is_writing = False
        self._closed = False
        self._setup_timer: Timer | None = loop.call_later(
            setup_timeout_ms / 1000, self.close, f"not connected within {setup_timeout_ms} ms"
        )
        # The socket, and the stream over it once it is open: the socket itself, or TLS.
        self._socket: socket.socket | None = None
        self._stream: ByteStream | None = None
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

    def send(self, pending: AskedRequest, timeout_ms: int) -> None:
        if self._closed:
            pending.fail(PeerUnreachable(f"cannot connect to {self.endpoint}"))
            return
        pending.timer = self._loop.call_later(timeout_ms / 1000, self._on_no_answer, timeout_ms)
        self._machine.send(pending)
        self._flush()

    def _on_no_answer(self, timeout_ms: int) -> None:
        self.close(f"no answer within {timeout_ms} ms")

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._end_setup()
        if self._relogin_timer is not None:
            self._relogin_timer.cancel()
        if self._socket is not None:
            fileno = self._socket.fileno()
            self._loop.remove_reader(fileno)
            self._loop.remove_writer(fileno)
            (self._stream or self._socket).close()
        self._forget(self)
        self._machine.fail(reason)

    def _on_connected(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.close(f"cannot connect: {errno.errorcode.get(code, code)}")
            return
        self._loop.remove_writer(self._socket.fileno())
        if self._context is None:
            self._open(self._socket)
        else:
            self._begin_handshake(self._socket, self._context)

    def _begin_handshake(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        try:
            # The socket is now part of the other one.
            self._socket = context.wrap_socket(
                connected, server_hostname=self.endpoint.host, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            connected.close()
            self._socket = None
            self.close(f"cannot connect: {error}")
            return
        self._loop.add_reader(self._socket.fileno(), self._continue_handshake)
        self._continue_handshake()

    def _continue_handshake(self) -> None:
        from ssl import SSLEOFError, SSLWantReadError, SSLWantWriteError

        from ottla.host.tls_stream import TlsStream
        from ottla.tls.explain import explain_client_failure

        wrapped = cast("ssl.SSLSocket", self._socket)
        try:
            wrapped.do_handshake()
        except SSLWantReadError:
            self._loop.remove_writer(wrapped.fileno())
        except SSLWantWriteError:
            self._loop.add_writer(wrapped.fileno(), self._continue_handshake)
        except OSError as error:
            reason = explain_client_failure(error, self.endpoint.host)
            if not isinstance(error, SSLEOFError | ConnectionError):
                self.failure = reason
            self.close(reason)
        else:
            self._loop.remove_writer(wrapped.fileno())
            self._open(TlsStream(wrapped))

    def _open(self, stream: ByteStream) -> None:
        self._stream = stream
        self._connected = True
        self._end_setup()
        self._loop.add_reader(stream.fileno(), self._on_readable)
        self._machine.open()
        self._flush()

    def _on_broken(self, error: OSError) -> None:
        if self._context is None:
            self.close(str(error))
            return
        from ottla.tls.explain import explain_client_failure

        reason = explain_client_failure(error, self.endpoint.host)
        if not self._machine.is_open:
            # With TLS 1.3 a refused certificate is reported to the client only here.
            self.failure = reason
        self.close(reason)

    # -- the login -------------------------------------------------------------------------------------------------

    def _on_login_step(self) -> None:
        """A token was computed on a worker."""
        if self._closed:
            return
        if self._machine.close_reason is not None:
            self._close_for_machine(self._machine.close_reason)
            return
        self._flush()
        self._plan_relogin()

    def _close_for_machine(self, reason: str) -> None:
        if self._machine.versions is not None and not self._machine.is_open:
            self.failure = reason
        self.close(reason)

    def _plan_relogin(self) -> None:
        machine = self._machine
        if machine.session_ms > 0 and machine.is_open and self._relogin_timer is None:
            seconds = max(machine.session_ms / 1000 * RELOGIN_SHARE, RELOGIN_SECONDS_MIN)
            self._relogin_timer = self._loop.call_later(seconds, self._log_in_again)

    def _log_in_again(self) -> None:
        self._relogin_timer = None
        self._machine.log_in_again()
        self._flush()

    def _end_setup(self) -> None:
        if self._setup_timer is not None:
            self._setup_timer.cancel()
            self._setup_timer = None

    def _flush(self) -> None:
        if self._connected and not self._is_writing and self._machine.outgoing.parts:
            self._on_writable()

    def _on_writable(self) -> None:
        stream = self._stream
        assert stream is not None
        outgoing = self._machine.outgoing
        parts = outgoing.parts
        try:
            while parts:
                # A request has no regions of files.
                outgoing.send_joined(stream.send)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.close(str(error))
            return
        if parts and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(stream.fileno(), self._on_writable)
        elif not parts and self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(stream.fileno())

    def _on_readable(self) -> None:
        try:
            self._receive()
        except Exception:
            # A defect in the callback of a response. What was received behind it is lost: a later request would get the
            # response to another one.
            logger.exception("a callback of a request to %s failed", self.endpoint)
            self.close("an internal error")

    def _receive(self) -> None:
        stream = self._stream
        assert stream is not None
        machine = self._machine
        frames = machine.frames
        while True:
            targets = frames.targets()
            try:
                if len(targets) == 1:
                    received = stream.recv_into(targets[0])
                else:
                    received = stream.recvmsg_into(targets)[0]
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._on_broken(error)
                return
            # A live view would prevent the frame's buffer from being reused for the next frame.
            del targets
            if not received:
                self.close("the peer closed the connection")
                return
            machine.received(received)
            if machine.close_reason is not None:
                self._close_for_machine(machine.close_reason)
                return
            if self._closed:
                return
            self._flush()
            if self._relogin_timer is None and machine.session_ms:
                self._plan_relogin()
            # A stream with TLS is read until it reports that it holds no more bytes.
            if self._context is None and not frames.has_begun_frame:
                return
            # Only the size of a large frame was requested. The rest has arrived with it and needs no turn of its own.


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
