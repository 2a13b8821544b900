"""One connection to one node, on an asyncio transport.

The machine (`ottla.wire.connection.client`) handles framing, version negotiation and the order of responses; the record
batches of a large response are received in place and stay slices of its buffer. A response that does not come in time
ends the connection, as with Kafka's own clients: responses come in order, so all later responses are late, too.

`Connector` makes the transport, with TLS or without. A login over SASL follows the negotiation of versions.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from ottla import __version__
from ottla.client.errors import ClientError, ConnectionLost, RequestUnsupported
from ottla.client.measures import RequestMeasures
from ottla.wire.api import API_SPECS, ApiKey, ApiSpec
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.client import VERSION_MAX, ClientConnection
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.peers import Endpoint, PeerUnreachable, PeerUnsupported

if TYPE_CHECKING:
    from ottla.client.login import Login
    from ottla.client.relogin import Relogin

__all__ = ["Connection", "Connector", "connect_plaintext", "open_connection"]

Connector = Callable[["Connection"], Awaitable[None]]

_SOFTWARE_NAME = "ottla"
# Receive buffers that a connection keeps for later responses: a response is received while the previous one is decoded.
# A consumer of a few partitions gets 1 MiB of each partition.
_LARGE_BUFFERS_MAX = 2
_LARGE_SIZE_MAX = 8 * 1024 * 1024

# The wait for the node's close_notify at the end of an encrypted connection.
_GOODBYE_SECONDS = 1.0

# Requests on one connection; the producer and the consumer have far lower limits of their own.
_REQUESTS_WAITING_MAX = 100_000


class _PendingRequest:
    """A request on its way, and the future of its response."""

    __slots__ = (
        "api_version",
        "correlation_id",
        "future",
        "is_answered",
        "measures",
        "request",
        "sent",
        "spec",
        "time",
        "timer",
        "version_max",
    )

    def __init__(
        self,
        request: Message,
        spec: ApiSpec,
        version_max: int,
        *,
        future: asyncio.Future[Any],
        is_answered: bool,
        measures: RequestMeasures,
        time: Callable[[], float],
    ) -> None:
        self.request = request
        self.spec = spec
        self.version_max = version_max
        self.api_version = -1
        self.correlation_id = 0
        self.is_answered = is_answered
        self.future = future
        self.timer: asyncio.TimerHandle | None = None
        self.measures = measures
        self.time = time
        self.sent = time()

    def finish(self, response: Any) -> None:
        self._cancel_timer()
        self.measures.responses += 1
        self.measures.latency_seconds += self.time() - self.sent
        if not self.future.done():
            self.future.set_result(response)

    def fail(self, error: PeerUnreachable) -> None:
        self._cancel_timer()
        if not self.future.done():
            failure = RequestUnsupported if isinstance(error, PeerUnsupported) else ConnectionLost
            self.future.set_exception(failure(str(error)))

    def _cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class Connection(asyncio.BufferedProtocol):
    """Drives the machine `ottla.wire.connection.client` on an asyncio transport.

    Made by `open_connection`; `closed` once it cannot be used any more.
    """

    def __init__(
        self, endpoint: Endpoint, *, client_id: str, response_bytes_max: int, measures: RequestMeasures
    ) -> None:
        self.endpoint = endpoint
        self.client_id = client_id
        self.closed = False
        # Set by connectors whose transport fails in more ways than a socket: turns its error into a failure.
        self.explain: Callable[[Exception, Endpoint], ClientError] | None = None
        self._machine = ClientConnection(
            str(endpoint),
            client_id=client_id,
            software=(_SOFTWARE_NAME, __version__),
            response_bytes_max=response_bytes_max,
            waiting_max=_REQUESTS_WAITING_MAX,
            buffers=ReceiveBuffers(buffers_max=_LARGE_BUFFERS_MAX, size_max=_LARGE_SIZE_MAX),
        )
        self._measures = measures
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._used_at = self._loop.time()
        self._negotiated: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        # Requests that wait for the end of a login; None while there is none.
        self._held: list[_PendingRequest] | None = None
        # Set on connections whose login expires.
        self.relogin: Relogin | None = None

    def set_buffers(self, *, send_bytes: int, receive_bytes: int) -> None:
        """Sets the sizes of the socket's buffers; -1 leaves a size to the operating system."""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is None:
            return
        if send_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if receive_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

    @property
    def idle_seconds(self) -> float:
        """The time since the last request; 0 while a response is awaited."""
        return 0.0 if self._machine.waiting else self._loop.time() - self._used_at

    @property
    def in_flight(self) -> int:
        return self._machine.waiting

    @property
    def api_versions(self) -> ApiVersionsResponse | None:
        """The node's response to ApiVersions; None before it has come."""
        return self._machine.api_versions

    @property
    def features(self) -> dict[str, int]:
        """Finalized features by name and level, from the node's response to ApiVersions."""
        response = self._machine.api_versions
        rows = [] if response is None else response.finalized_features
        return {feature.name: feature.max_version_level for feature in rows}

    def version_of(self, spec: ApiSpec, version_max: int = VERSION_MAX) -> int:
        """The highest version that both sides speak; raises RequestUnsupported."""
        try:
            return self._machine.version_for(spec, version_max)
        except PeerUnsupported as error:
            raise RequestUnsupported(str(error)) from None

    def post(
        self, request: Message, *, timeout_ms: int, version_max: int = VERSION_MAX, answered: bool = True
    ) -> asyncio.Future[Any]:
        """Sends at once, without waiting for room; the future has the response, or fails with ConnectionLost.

        Only another login of this connection delays a request.
        """
        return self._post(request, timeout_ms, version_max, answered=answered, held=self._held)

    def _post(
        self, request: Message, timeout_ms: int, version_max: int, *, answered: bool, held: list[_PendingRequest] | None
    ) -> asyncio.Future[Any]:
        spec = API_SPECS[ApiKey(request.API_KEY)]
        self.version_of(spec, version_max)
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(ConnectionLost(f"{self.endpoint}: the connection is closed"))
            return future
        pending = _PendingRequest(
            request,
            spec,
            version_max,
            future=future,
            is_answered=answered,
            measures=self._measures,
            time=self._loop.time,
        )
        if answered:
            seconds = timeout_ms / 1000
            pending.timer = self._loop.call_later(
                seconds, self.close, f"no answer to {spec.name} within {timeout_ms} ms"
            )
        self._used_at = pending.sent
        if held is None:
            self._machine.send(pending)
        else:
            held.append(pending)
        if not answered and not future.done():
            future.set_result(None)
        self._write()
        return future

    async def ask_at_once(self, request: Message, *, timeout_ms: int, version_max: int = VERSION_MAX) -> Any:
        """Sends a step of a login, for which the held requests wait."""
        return await self._post(request, timeout_ms, version_max, answered=True, held=None)

    def hold_requests(self) -> None:
        """Further requests wait until `release_requests`."""
        if self._held is None:
            self._held = []

    def release_requests(self) -> None:
        held, self._held = self._held, None
        for pending in held or ():
            self._machine.send(pending)
        self._write()

    async def ask(self, request: Message, *, timeout_ms: int, version_max: int = VERSION_MAX) -> Any:
        """Waits until earlier requests have left, sends, and waits for the response."""
        if not self._writable.is_set():
            await self._writable.wait()
        return await self.post(request, timeout_ms=timeout_ms, version_max=version_max)

    async def drained(self, *, timeout_ms: int) -> None:
        """Returns when the transport accepts more data, or closes the connection after the time-out."""
        if self._writable.is_set():
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._writable.wait()
        except TimeoutError:
            self.close(f"nothing has left within {timeout_ms} ms")

    async def negotiate(self) -> None:
        """Negotiates the API versions with the node (KIP-35); raises ConnectionLost."""
        self._machine.open()
        self._write()
        await self._negotiated

    def close(self, reason: str = "the connection was closed", *, failure: ClientError | None = None) -> None:
        """Fails the pending requests. `failure` is the error of `negotiate` instead of ConnectionLost."""
        if self.closed:
            return
        self.closed = True
        self._writable.set()
        if self._transport is not None:
            # An encrypted connection that has nothing to send need not wait for the node's close_notify.
            is_flushed = not self._transport.get_write_buffer_size()
            if self._machine.waiting or (is_flushed and self._transport.get_extra_info("ssl_object") is not None):
                self._transport.abort()
            else:
                # Buffered requests without a response (acks=0) are still sent.
                self._transport.close()
        if self.relogin is not None:
            self.relogin.cancel()
        self._machine.fail(reason)
        held, self._held = self._held, None
        for pending in held or ():
            pending.fail(PeerUnreachable(f"{self.endpoint}: {reason}"))
        if not self._negotiated.done():
            self._negotiated.set_exception(failure or ConnectionLost(f"{self.endpoint}: {reason}"))
            # `negotiate` may not have been called.
            self._negotiated.exception()

    def drop(self) -> None:
        """Closes the connection at once, without sending what is buffered."""
        self.close()
        if self._transport is not None:
            self._transport.abort()

    async def wait_ended(self) -> None:
        """After `close` of a TLS connection: waits a short time until the node has closed its side, too.

        An event loop that ends earlier would leave the socket open.
        """
        if self._transport is None or self.explain is None:
            return
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        if exc is not None and self.explain is not None:
            failure = self.explain(exc, self.endpoint)
            self.close(str(failure).removeprefix(f"{self.endpoint}: "), failure=failure)
        elif not self._negotiated.done() and (exc is None or isinstance(exc, ConnectionError)):
            self.close(
                "the node closed the connection without an answer: check that security.protocol is that of the "
                "listener, SSL or SASL_SSL if it encrypts"
            )
        else:
            self.close("the node closed the connection" if exc is None else str(exc))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._machine.frames.targets()[0]

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            # Bytes that arrive until the transport has ended belong to no request.
            return
        machine = self._machine
        self._measures.response_bytes += nbytes
        machine.received(nbytes)
        if machine.close_reason is not None:
            self.close(machine.close_reason)
            return
        if machine.is_open and not self._negotiated.done():
            self._negotiated.set_result(None)
        self._write()

    def eof_received(self) -> bool:
        return False

    def _write(self) -> None:
        outgoing = self._machine.outgoing
        if outgoing.parts and self._transport is not None:
            self._measures.requests += 1
            self._measures.request_bytes += outgoing.unsent_bytes
            self._transport.writelines(list(outgoing.parts))  # type: ignore[arg-type]
            outgoing.clear()


async def connect_plaintext(connection: Connection) -> None:
    """The connector of PLAINTEXT listeners."""
    endpoint = connection.endpoint
    await asyncio.get_running_loop().create_connection(lambda: connection, endpoint.host, endpoint.port)


async def open_connection(
    endpoint: Endpoint,
    *,
    client_id: str,
    connector: Connector = connect_plaintext,
    timeout_ms: int = 10_000,
    response_bytes_max: int = 512 * 1024 * 1024,
    measures: RequestMeasures | None = None,
    login: Login | None = None,
) -> Connection:
    """Connects, negotiates versions and logs in; raises ConnectionLost, AuthenticationFailed."""
    measures = measures or RequestMeasures()
    measures.connections += 1
    connection = Connection(endpoint, client_id=client_id, response_bytes_max=response_bytes_max, measures=measures)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await connector(connection)
            await connection.negotiate()
            if login is not None:
                await _log_in(connection, login, timeout_ms)
    except TimeoutError:
        connection.drop()
        raise ConnectionLost(f"{endpoint}: no connection within {timeout_ms} ms") from None
    except OSError as error:
        connection.drop()
        raise ConnectionLost(f"{endpoint}: {error.strerror or error}") from error
    except BaseException:
        connection.drop()
        raise
    return connection


async def _log_in(connection: Connection, login: Login, timeout_ms: int) -> None:
    # Imported with the first login: most clients have none.
    from ottla.client.login import log_in

    session_ms = await log_in(connection, login, timeout_ms=timeout_ms)
    if session_ms:
        from ottla.client.relogin import Relogin

        connection.relogin = Relogin(connection, login, timeout_ms=timeout_ms)
        connection.relogin.plan(session_ms)
