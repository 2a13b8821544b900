"""The asking end of a connection: versions are negotiated, requests go out, responses come back in order.

The first request is ApiVersions, so that both ends may be of different releases (KIP-35, KIP-511). Requests that are
sent before its response has come wait for it. Requests are pipelined; Kafka answers in request order, so a response
belongs to the oldest unanswered request, and must have its correlation id.

If the other end expects a login, the login follows (`client_login`), and requests wait for it, too.

After any error, `fail` ends all waiting requests. There is no retry here: only the caller can decide whether a request
may be repeated.

A driver calls `open` once bytes can be sent, sends what `outgoing` has, feeds responses in (`frames.targets`,
`received`), and closes the connection when `close_reason` is set. Timeouts are the driver's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Protocol

from ottla.model.errors import ErrorCode
from ottla.wire.api import API_SPECS, ApiKey, ApiSpec
from ottla.wire.codec import MalformedMessage, UnsupportedVersion, decode
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.frames import FrameReader, FrameSizeError
from ottla.wire.connection.outgoing import Outgoing
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.packed import PackedRequest
from ottla.wire.peers import PeerUnreachable, PeerUnsupported
from ottla.wire.primitives import skip_tags

if TYPE_CHECKING:
    from ottla.wire.connection.client_login import ConnectionLogin, Login

__all__ = ["VERSION_MAX", "Asked", "ClientConnection"]

logger = logging.getLogger("ottla.wire.connection")

_CORRELATION_ID = Struct(">i")
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")

# A response begins with its correlation id.
FRAME_SIZE_MIN = 4

VERSION_MAX = 32767

# The beginning of the record with which a TLS listener refuses other protocols, read as the size of a frame.
_TLS_ALERT = 0x1503


class Asked(Protocol):
    """A request that waits to be sent or answered."""

    request: Message
    spec: ApiSpec
    version_max: int
    # Chosen when the request is sent.
    api_version: int
    correlation_id: int
    # False for a produce request with acks=0.
    is_answered: bool

    def finish(self, response: Any) -> None:
        """The response has come."""

    def fail(self, error: PeerUnreachable) -> None:
        """There will be no response."""


class ClientConnection:
    """One connection, without its socket. `name` is the endpoint, for error messages."""

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_is_logging_in",
        "_login",
        "_name",
        "_software",
        "_unanswered",
        "_unsent",
        "_waiting_max",
        "api_versions",
        "close_reason",
        "frames",
        "outgoing",
        "versions",
    )

    def __init__(
        self,
        name: str,
        *,
        client_id: str,
        software: tuple[str, str],
        response_bytes_max: int,
        waiting_max: int,
        buffers: ReceiveBuffers,
    ) -> None:
        # Set by `log_in_as`; None where the other end expects no login.
        self._login: ConnectionLogin | None = None
        self._is_logging_in = False
        self._name = name
        self._client_id = client_id
        # Name and version that the other end may show to its operators.
        self._software = software
        self._waiting_max = waiting_max
        self.frames = FrameReader(buffers, size_min=FRAME_SIZE_MIN, size_max=response_bytes_max, is_trusted=True)
        self.outgoing = Outgoing()
        # Lowest and highest version by API key, once they are known; and the response that contained them.
        self.versions: dict[int, tuple[int, int]] | None = None
        self.api_versions: ApiVersionsResponse | None = None
        # Requests that wait for the versions, and requests that wait for their responses.
        self._unsent: deque[Asked] = deque()
        self._unanswered: deque[Asked] = deque()
        # The correlation id of the last request.
        self._correlation_id = 0
        # Why the driver must close the connection, once it must.
        self.close_reason: str | None = None

    def log_in_as(self, login: Login, *, host: str, wake: Callable[[], object]) -> None:
        """Sets the login that requests wait for; called before `open`. `wake` is called when bytes wait to be sent."""
        # Most connections have no login.
        from ottla.wire.connection.client_login import ConnectionLogin

        self._login = ConnectionLogin(self, login, host=host, on_done=self._on_logged_in, wake=wake)

    @property
    def is_open(self) -> bool:
        """True once the versions are known, and the login is done: requests leave at once."""
        return self.versions is not None and not self._is_logging_in

    @property
    def session_ms(self) -> int:
        """The time for which the login is valid; 0 without a login, or for a login without an end."""
        return 0 if self._login is None else self._login.session_ms

    def log_in_again(self) -> None:
        """The login ends soon (KIP-368)."""
        assert self._login is not None
        self._is_logging_in = True
        self._login.begin()

    @property
    def waiting(self) -> int:
        """Requests that wait to be sent or answered."""
        return len(self._unsent) + len(self._unanswered)

    # -- requests --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Called when bytes can be sent: requests the versions of the other end."""
        spec = API_SPECS[ApiKey.API_VERSIONS]
        self._negotiate(spec, spec.request_max_version)

    def send(self, pending: Asked) -> None:
        """Queues a request for sending, or fails it. A request that has already failed must not be passed."""
        if self.waiting >= self._waiting_max:
            pending.fail(PeerUnreachable(f"{self._name} has {self._waiting_max} unanswered requests"))
        elif self.versions is None or self._is_logging_in:
            self._unsent.append(pending)
        else:
            self._send(pending)

    def version_for(self, spec: ApiSpec, version_max: int = VERSION_MAX) -> int:
        """The highest version that both ends speak; raises PeerUnsupported."""
        assert self.versions is not None, "the versions are not known yet"
        theirs = self.versions.get(spec.key)
        if theirs is None:
            raise PeerUnsupported(f"{self._name} does not support {spec.name}; it may be of an older release.")
        # A version that is not finished is used with peers that announce it.
        version = min(spec.schema_max_version, theirs[1], version_max)
        if version < max(spec.schema_min_version, theirs[0]):
            raise PeerUnsupported(
                f"{self._name} speaks {spec.name} in versions {theirs[0]} to {theirs[1]}, none of which can be used."
            )
        return version

    def fail(self, reason: str) -> None:
        """The connection has ended: fails every request that waits."""
        if self.close_reason is None:
            self.close_reason = reason
        error = PeerUnreachable(f"{self._name}: {reason}")
        waiting = (*self._unanswered, *self._unsent)
        self._unanswered.clear()
        self._unsent.clear()
        self.outgoing.clear()
        for pending in waiting:
            try:
                pending.fail(error)
            except Exception:
                # A defect in the callback of one request must not leave the other requests waiting for ever.
                logger.exception("a callback of a request to %s failed", self._name)

    def _send(self, pending: Asked) -> None:
        try:
            pending.api_version = self.version_for(pending.spec, pending.version_max)
            self.write(pending)
        except PeerUnsupported as error:
            pending.fail(error)
        except UnsupportedVersion as error:
            pending.fail(PeerUnsupported(f"{self._name} speaks an older {pending.spec.name}: {error}"))

    def write(self, pending: Asked) -> None:
        """Writes a request whose version is chosen. For `send`, and for the login."""
        correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = request_parts(pending.spec.key, pending.api_version, correlation_id, self._client_id, pending.request)
        pending.correlation_id = self._correlation_id = correlation_id
        self.outgoing.put(parts)
        if pending.is_answered:
            self._unanswered.append(pending)

    def _negotiate(self, spec: ApiSpec, version: int) -> None:
        name, software_version = self._software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        self.write(_Negotiation(self, request, spec, version))

    def negotiated(self, response: ApiVersionsResponse, spec: ApiSpec) -> None:
        """Handles the answer to ApiVersions. An end with only older versions is asked again in such a version."""
        theirs = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            highest = theirs.get(int(ApiKey.API_VERSIONS), (0, 0))[1]
            self._negotiate(spec, min(highest, spec.request_max_version - 1))
            return
        if response.error_code:
            self.close_reason = f"ApiVersions was answered with error {response.error_code}"
            return
        self.api_versions = response
        self.versions = theirs
        if self._login is not None:
            self._is_logging_in = True
            self._login.begin()
        else:
            self._send_unsent()

    def _on_logged_in(self) -> None:
        self._is_logging_in = False
        self._send_unsent()

    def _send_unsent(self) -> None:
        while self._unsent and self.close_reason is None:
            self._send(self._unsent.popleft())

    # -- responses -------------------------------------------------------------------------------------------------

    def received(self, count: int) -> None:
        """`count` bytes were received into `frames.targets()`: finishes the requests that they answer."""
        frames = self.frames
        frames.received(count)
        try:
            while self.close_reason is None:
                frame = frames.next_frame()
                if frame is None:
                    break
                self._on_response(frame)
                # A live view would keep the frame's buffer from being reused for the next frame.
                del frame
                if frames.position == frames.end:
                    break
        except FrameSizeError as error:
            if error.size >> 16 == _TLS_ALERT:
                self.close_reason = "the port speaks TLS: set security.protocol to SSL or SASL_SSL"
            else:
                self.close_reason = f"a response claims to have {error.size} bytes; is this a Kafka port?"
        frames.retain()

    def _on_response(self, frame: memoryview) -> None:
        if not self._unanswered:
            self.close_reason = "a response came that no request has asked for"
            return
        pending = self._unanswered[0]
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        if correlation_id != pending.correlation_id:
            self.close_reason = "a response came to another request than the oldest one"
            return
        self._unanswered.popleft()
        try:
            response = _decoded(pending, frame)
        except (MalformedMessage, IndexError, struct_error) as error:
            pending.fail(PeerUnreachable(f"{self._name}: the response to {pending.spec.name} is malformed: {error}"))
            self.close_reason = f"a malformed response to {pending.spec.name}"
            return
        pending.finish(response)


class _Negotiation:
    """The ApiVersions request with which a connection begins."""

    __slots__ = ("_connection", "api_version", "correlation_id", "is_answered", "request", "spec", "version_max")

    def __init__(self, connection: ClientConnection, request: Message, spec: ApiSpec, version: int) -> None:
        self._connection = connection
        self.request = request
        self.spec = spec
        self.version_max = version
        self.api_version = version
        self.correlation_id = 0
        self.is_answered = True

    def finish(self, response: ApiVersionsResponse) -> None:
        self._connection.negotiated(response, self.spec)

    def fail(self, error: PeerUnreachable) -> None:
        """The connection ends, and with it the requests that wait for the versions."""


def _decoded(pending: Asked, frame: memoryview) -> Any:
    spec, version, position = pending.spec, pending.api_version, 4
    if spec.response_header_version(version):
        position = skip_tags(frame, 5, frame[4], len(frame)) if frame[4] else 5
    elif spec.key is ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        # An end that does not support the version answers in version 0 (KIP-511).
        version = 0
    request = pending.request
    if isinstance(request, PackedRequest) and version == request.PACKED_VERSION:
        read = request.read_response(frame, position)
        if read is not None:
            return read
    response, _ = decode(spec.response_class, frame, version, position)
    return response
