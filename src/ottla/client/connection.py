"""One connection to one node: frames out, frames in, answers matched by correlation id.

The receiving side reads the four bytes of a frame's size, then straight into a buffer of exactly that size, so that
the record batches of a fetch are not copied on their way to whoever asked: they stay slices of that buffer. Requests
are pipelined. An answer that does not come in time ends the connection, as with Kafka's own clients, since answers
come in order and everything behind it is late as well.

`Connector` is the seam for TLS and SASL: it makes the transport, and may talk on it before the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from ottla import __version__
from ottla.client.errors import ConnectionLost, RequestUnsupported
from ottla.client.measures import RequestMeasures
from ottla.model.errors import ErrorCode
from ottla.wire.api import API_SPECS, ApiKey, ApiSpec
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.peers import Endpoint
from ottla.wire.primitives import skip_tags

__all__ = ["Connection", "Connector", "connect_plaintext", "open_connection"]

Connector = Callable[["Connection"], Awaitable[None]]

_SOFTWARE_NAME = "ottla"
_VERSION_MAX = 32767


class _Asked:
    __slots__ = ("future", "sent", "spec", "timer", "version")

    def __init__(
        self, future: asyncio.Future[Any], spec: ApiSpec, version: int, timer: asyncio.TimerHandle | None, sent: float
    ) -> None:
        self.future = future
        self.spec = spec
        self.version = version
        self.timer = timer
        self.sent = sent


class Connection(asyncio.BufferedProtocol):
    """Made by `open_connection`; `closed` once it cannot be used any more."""

    def __init__(
        self, endpoint: Endpoint, *, client_id: str, response_bytes_max: int, measures: RequestMeasures
    ) -> None:
        self.endpoint = endpoint
        self.client_id = client_id
        self.closed = False
        self.versions: dict[int, tuple[int, int]] = {}
        # Finalized features by name and level, as the node told when the connection was made.
        self.features: dict[str, int] = {}
        self.api_versions: ApiVersionsResponse | None = None
        self._response_bytes_max = response_bytes_max
        self._measures = measures
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, _Asked] = {}
        self._correlation_id = 0
        self._size = bytearray(4)
        self._frame: bytearray | None = None
        self._filled = 0
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def in_flight(self) -> int:
        return len(self._asked)

    def version_of(self, spec: ApiSpec, version_max: int = _VERSION_MAX) -> int:
        """The highest version that both sides speak."""
        theirs = self.versions.get(spec.key)
        if theirs is None:
            raise RequestUnsupported(
                f"{self.endpoint} does not support {spec.name}; it may be older than this command."
            )
        version = min(spec.request_max_version, theirs[1], version_max)
        if version < max(spec.schema_min_version, theirs[0]):
            raise RequestUnsupported(
                f"{self.endpoint} speaks {spec.name} in versions {theirs[0]} to {theirs[1]}, none of which can be used."
            )
        return version

    def post(
        self, request: Message, *, timeout_ms: int, version_max: int = _VERSION_MAX, answered: bool = True
    ) -> asyncio.Future[Any]:
        """Sends at once, without waiting for room; the future has the response, or fails with ConnectionLost."""
        spec = API_SPECS[ApiKey(request.API_KEY)]
        return self._post(request, spec, self.version_of(spec, version_max), timeout_ms, answered)

    async def ask(self, request: Message, *, timeout_ms: int, version_max: int = _VERSION_MAX) -> Any:
        """Waits until what was sent before has left, sends, and waits for the response."""
        if not self._writable.is_set():
            await self._writable.wait()
        return await self.post(request, timeout_ms=timeout_ms, version_max=version_max)

    async def drained(self, *, timeout_ms: int) -> None:
        """Returns when there is room for more to leave; a node that takes nothing for so long is given up."""
        if self._writable.is_set():
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._writable.wait()
        except TimeoutError:
            self.close(f"nothing has left within {timeout_ms} ms")

    async def negotiate(self, *, timeout_ms: int) -> None:
        """Learns which versions the node speaks (KIP-35); a node that knows only old ones is asked in the oldest."""
        spec = API_SPECS[ApiKey.API_VERSIONS]
        request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=__version__)
        response: ApiVersionsResponse
        response = await self._post(request, spec, spec.request_max_version, timeout_ms, True)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = {api.api_key: api.max_version for api in response.api_keys}
            version = min(theirs.get(ApiKey.API_VERSIONS, 0), spec.request_max_version)
            response = await self._post(request, spec, version, timeout_ms, True)
        if response.error_code != 0:
            raise ConnectionLost(f"{self.endpoint} refuses to say which requests it knows ({response.error_code}).")
        self.api_versions = response
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def close(self, reason: str = "the connection was closed") -> None:
        if self.closed:
            return
        self.closed = True
        self._writable.set()
        if self._transport is not None:
            if self._asked:
                self._transport.abort()
            else:
                # What was sent without asking for an answer (acks=0) still leaves.
                self._transport.close()
        asked, self._asked = self._asked, {}
        for one in asked.values():
            if one.timer is not None:
                one.timer.cancel()
            if not one.future.done():
                one.future.set_exception(ConnectionLost(f"{self.endpoint}: {reason}"))

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not derived from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close("the node closed the connection" if exc is None else str(exc))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        target = self._size if self._frame is None else self._frame
        return memoryview(target)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            # What still comes until the transport has ended is nobody's.
            return
        self._filled += nbytes
        if self._frame is None:
            if self._filled < 4:
                return
            size = int.from_bytes(self._size, "big", signed=True)
            self._filled = 0
            if not 4 <= size <= self._response_bytes_max:
                self.close(f"an answer claims {size} bytes; is this a Kafka port?")
                return
            self._frame = bytearray(size)
        elif self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._on_frame(memoryview(frame))

    def eof_received(self) -> bool:
        return False

    def _post(
        self, request: Message, spec: ApiSpec, version: int, timeout_ms: int, answered: bool
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed or self._transport is None:
            future.set_exception(ConnectionLost(f"{self.endpoint}: the connection is closed"))
            return future
        correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = request_parts(spec.key, version, correlation_id, self.client_id, request)
        if answered:
            seconds = timeout_ms / 1000
            timer = self._loop.call_later(seconds, self.close, f"no answer to {spec.name} within {timeout_ms} ms")
            self._asked[correlation_id] = _Asked(future, spec, version, timer, self._loop.time())
        else:
            future.set_result(None)
        self._measures.requests += 1
        self._measures.request_bytes += sum(map(len, parts))
        self._transport.writelines(parts)  # type: ignore[arg-type]
        return future

    def _on_frame(self, frame: memoryview) -> None:
        asked = self._asked.pop(int.from_bytes(frame[:4], "big"), None)
        if asked is None:
            self.close("an answer came that nobody asked for")
            return
        if asked.timer is not None:
            asked.timer.cancel()
        self._measures.responses += 1
        self._measures.response_bytes += len(frame)
        self._measures.latency_seconds += self._loop.time() - asked.sent
        if asked.future.done():
            return
        spec, version, position = asked.spec, asked.version, 4
        try:
            if spec.response_header_version(version):
                position = skip_tags(frame, 5, frame[4], len(frame)) if frame[4] else 5
            elif spec.key is ApiKey.API_VERSIONS and bytes(frame[4:6]) == b"\0\x23":
                # Whoever does not know the version answers in the oldest one (KIP-511).
                version = 0
            response, _ = decode(spec.response_class, frame, version, position)
        except (MalformedMessage, IndexError) as error:
            asked.future.set_exception(
                ConnectionLost(f"{self.endpoint}: the answer to {spec.name} is damaged: {error}")
            )
            return
        asked.future.set_result(response)


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
) -> Connection:
    """A connection that knows what the node speaks; raises ConnectionLost."""
    measures = measures or RequestMeasures()
    measures.connections += 1
    connection = Connection(endpoint, client_id=client_id, response_bytes_max=response_bytes_max, measures=measures)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await connector(connection)
            await connection.negotiate(timeout_ms=timeout_ms)
    except TimeoutError:
        connection.close()
        raise ConnectionLost(f"{endpoint}: no connection within {timeout_ms} ms") from None
    except OSError as error:
        connection.close()
        raise ConnectionLost(f"{endpoint}: {error.strerror or error}") from error
    except BaseException:
        connection.close()
        raise
    return connection
