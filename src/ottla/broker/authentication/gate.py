"""The gate of a SASL connection: a login comes before the first request (KIP-43, KIP-152).

    client   ApiVersions          optional; answered as on any listener
    client   SaslHandshake        names a mechanism
    client   SaslAuthenticate     a token of the mechanism; repeated until the exchange is complete

After SaslHandshake of version 0 the tokens come as frames without a header, and go back in the same way. Any other
request closes the connection. So does a failed login, after its answer; the answer is delayed
(`connection.failed.authentication.delay.ms`), which slows down those who try passwords.

A login may be valid for a limited time (KIP-368): `connections.max.reauth.ms`, or until the credential expires. The
last SaslAuthenticate response names that time. The client then logs in again on the same connection, with the same
mechanism and as the same principal. A request after the end of that time closes the connection.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from ottla.broker.authentication.replies import BareReply, Reply, RequestReply
from ottla.broker.context import CloseConnection, ConnectionContext, Principal
from ottla.broker.pending import Part, PendingResponse
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.sasl.exchange import SaslError, ServerExchange
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.framing import RequestHeader, parse_request_header, response_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.audit.trail import AuditTrail
    from ottla.broker.authentication.settings import SaslSettings
    from ottla.broker.statistics import LoginStatistics
    from ottla.model.ports import World

__all__ = ["GateWaiter", "SaslGate"]

logger = logging.getLogger("ottla.broker.authentication")

# As in Apache Kafka, a client may log in again once a second; an earlier attempt is answered with ILLEGAL_SASL_STATE.
RELOGIN_SECONDS_MIN = 1.0


class GateWaiter(Protocol):
    """The connection behind the gate."""

    def response_ready(self) -> None: ...

    def gate_opened(self) -> None:
        """The client has logged in, after the gate's answer had to wait."""


class _State(Enum):
    HANDSHAKE = auto()
    # Tokens in frames of their own, after SaslHandshake of version 0; or in SaslAuthenticate requests.
    BARE_TOKENS = auto()
    REQUESTS = auto()
    # A token is being checked elsewhere.
    CHECKING = auto()
    OPEN = auto()
    OVER = auto()


class _Session:
    """A login that is complete: the principal must stay the same when the client logs in again."""

    __slots__ = ("ends", "mechanism", "principal")

    def __init__(self, mechanism: str, principal: Principal, ends: float | None) -> None:
        self.mechanism = mechanism
        self.principal = principal
        # The end of the login by the monotonic clock; None for a login without an end.
        self.ends = ends


class SaslGate:
    def __init__(
        self,
        settings: SaslSettings,
        new_exchange: Callable[[str], ServerExchange],
        *,
        world: World,
        counts: LoginStatistics,
        audit: AuditTrail | None = None,
        current_settings: Callable[[], SaslSettings] | None = None,
    ) -> None:
        self._settings = settings
        # A client that logs in again must have credentials of that moment, and not of the time when it connected.
        self._current_settings = current_settings
        self._new_exchange = new_exchange
        self._clock = world.clock
        self._scheduler = world.scheduler
        self._counts = counts
        self._audit = audit
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        # True after SaslHandshake of version 0.
        self._is_bare = False
        self._exchange: ServerExchange | None = None
        self._session: _Session | None = None
        # The time at which the last re-authentication began.
        self._relogin_began = float("-inf")
        # True once the login is complete and has no end: the gate is no longer needed.
        self.is_removable = False
        # Set when the answer that `take` has returned is the last one.
        self.close_reason: str | None = None

    @property
    def is_open(self) -> bool:
        return self._state is _State.OPEN

    @property
    def request_bytes_max(self) -> int:
        """A client that has not logged in may send no larger frame."""
        return self._settings.request_bytes_max

    @property
    def takes_bare_tokens(self) -> bool:
        return self._is_bare and self._state in (_State.BARE_TOKENS, _State.CHECKING)

    def take(
        self, frame: memoryview, connection: ConnectionContext, waiter: GateWaiter
    ) -> list[Part] | PendingResponse | None:
        if self._state is _State.OPEN and not self._begins_again(frame):
            return None
        if self._state is _State.BARE_TOKENS:
            return self._take_token(bytes(frame), BareReply(), connection, waiter)
        try:
            header = parse_request_header(frame)
            if header.api_key == ApiKey.API_VERSIONS and self._state is not _State.REQUESTS:
                return None
            if header.api_key == ApiKey.SASL_HANDSHAKE and self._state is _State.HANDSHAKE:
                return self._shake_hands(frame, header, connection)
            if header.api_key == ApiKey.SASL_AUTHENTICATE and self._state is _State.REQUESTS:
                return self._authenticate(frame, header, connection, waiter)
        except (MalformedMessage, struct.error, IndexError):
            reason = "a malformed request before the login"
            self._note_refusal(connection, reason)
            raise CloseConnection(reason) from None
        return self._refuse_order(header, connection)

    # -- the end of a session --------------------------------------------------------------------------------------

    def _begins_again(self, frame: memoryview) -> bool:
        """True if the request begins another login. Raises CloseConnection for other requests after the login's end."""
        session = self._session
        assert session is not None, "the gate is open"
        if session.ends is None:
            return False
        now = self._clock.monotonic()
        if (
            int.from_bytes(frame[:2], "big") == ApiKey.SASL_HANDSHAKE
            and now - self._relogin_began >= RELOGIN_SECONDS_MIN
        ):
            self._relogin_began, self._state = now, _State.HANDSHAKE
            if self._current_settings is not None:
                self._settings = self._current_settings()
            return True
        if now > session.ends:
            self._counts.expired_connections += 1
            raise CloseConnection(
                f"the login of {session.principal} has expired, and the client has not logged in again"
            )
        return False

    # -- the steps of a login --------------------------------------------------------------------------------------

    def _shake_hands(self, frame: memoryview, header: RequestHeader, connection: ConnectionContext) -> list[Part]:
        if header.api_version not in (0, 1):
            raise CloseConnection(f"a SaslHandshake request of version {header.api_version}")
        request, _ = decode(SaslHandshakeRequest, frame, header.api_version, header.body_position)
        mechanisms = list(self._settings.mechanisms)
        if request.mechanism not in mechanisms:
            self._state = _State.OVER
            self._count_failure()
            self.close_reason = f"the mechanism {request.mechanism[:64]!r} is not offered by this listener"
            self._note_refusal(connection, self.close_reason)
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        else:
            self._mechanism = request.mechanism
            self._exchange = self._new_exchange(request.mechanism)
            self._is_bare = header.api_version == 0
            self._state = _State.BARE_TOKENS if self._is_bare else _State.REQUESTS
            response = SaslHandshakeResponse(mechanisms=mechanisms)
        return response_parts(header.api_key, header.api_version, header.correlation_id, response)

    def _authenticate(
        self, frame: memoryview, header: RequestHeader, connection: ConnectionContext, waiter: GateWaiter
    ) -> list[Part] | PendingResponse:
        if header.api_version not in (0, 1, 2):
            raise CloseConnection(f"a SaslAuthenticate request of version {header.api_version}")
        request, _ = decode(SaslAuthenticateRequest, frame, header.api_version, header.body_position)
        return self._take_token(bytes(request.auth_bytes), RequestReply(header), connection, waiter)

    def _take_token(
        self, token: bytes, reply: Reply, connection: ConnectionContext, waiter: GateWaiter
    ) -> list[Part] | PendingResponse:
        exchange, state = self._exchange, self._state
        assert exchange is not None, "set by the handshake"
        try:
            if self._session is not None and self._session.mechanism != self._mechanism:
                raise SaslError(
                    f"SASL mechanism '{self._mechanism}' requested by client is not supported for re-authentication "
                    f"of mechanism '{self._session.mechanism}'"
                )
            answer = exchange.evaluate(token)
            if not isinstance(answer, Deferred):
                return self._accept(answer, reply, connection)
        except Exception as error:  # noqa: BLE001 - a defect is logged there
            return self._refuse_later(PendingResponse(None, None, None, None), error, reply, connection, waiter)
        pending = PendingResponse(None, None, None, None)
        self._state = _State.CHECKING

        def on_checked(checked: Deferred[bytes]) -> None:
            if connection.is_gone:
                return
            self._state = state
            try:
                pending.parts = self._accept(checked.result(), reply, connection)
            except Exception as error:  # noqa: BLE001 - a defect is logged there
                self._refuse_later(pending, error, reply, connection, waiter)
                return
            pending.ready = True
            if self._state is _State.OPEN:
                waiter.gate_opened()
            waiter.response_ready()

        answer.when_done(on_checked)
        return pending

    def _accept(self, token: bytes, reply: Reply, connection: ConnectionContext) -> list[Part]:
        """The answer to a token that the mechanism has accepted. Raises SaslError for a change of the principal."""
        exchange = self._exchange
        assert exchange is not None
        if not exchange.is_complete:
            return reply.accepted(token, session_ms=0)
        principal, earlier = Principal("User", exchange.user, exchange.groups), self._session
        if earlier is not None and earlier.principal.name != principal.name:
            raise SaslError(f"Cannot change principals during re-authentication from {earlier.principal}: {principal}")
        now, session_ms = self._clock.monotonic(), self._session_ms(exchange)
        ends = None if session_ms is None else now + session_ms / 1000
        connection.identify(principal)
        connection.is_token_authenticated = exchange.has_token
        self._session = _Session(self._mechanism, principal, ends)
        self._state = _State.OPEN
        self._exchange = None
        self.is_removable = ends is None
        if earlier is None:
            self._counts.count_success(can_repeat=reply.names_session)
        else:
            self._counts.count_relogin(now - self._relogin_began)
        logger.debug("%s has logged in as %s with %s", connection.connection_id, principal, self._mechanism)
        if self._audit is not None:
            self._audit.note_login(
                address=connection.client_host,
                listener=connection.listener.name,
                mechanism=self._mechanism,
                principal=str(connection.principal),
                is_again=earlier is not None,
            )
        return reply.accepted(token, session_ms=session_ms or 0)

    def _session_ms(self, exchange: ServerExchange) -> int | None:
        """For how long the login is valid; None for a login without an end."""
        limits = []
        if exchange.expires_ms is not None:
            limits.append(exchange.expires_ms - self._clock.now_ms())
        if reauth_ms := self._settings.reauth_ms(self._mechanism):
            limits.append(reauth_ms)
        return max(min(limits), 0) if limits else None

    # -- refusals --------------------------------------------------------------------------------------------------

    def _refuse_order(self, header: RequestHeader, connection: ConnectionContext) -> list[Part]:
        """The last answer to a request that is out of order. Only requests of a login get an answer."""
        self._count_failure()
        name = API_SPECS[ApiKey(header.api_key)].name if header.api_key in API_SPECS else f"API key {header.api_key}"
        reason = f"a {name} request before the login was complete"
        if self._state is not _State.OVER:
            self._note_refusal(connection, reason)
        is_begun = self._state is _State.REQUESTS
        self._state = _State.OVER
        response: Message | None = None
        if is_begun and header.api_key == ApiKey.SASL_HANDSHAKE and header.api_version in (0, 1):
            response = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        elif is_begun and header.api_key == ApiKey.API_VERSIONS and header.api_version in range(5):
            response = ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if response is None:
            raise CloseConnection(reason)
        self.close_reason = reason
        return response_parts(header.api_key, header.api_version, header.correlation_id, response)

    def _refuse_later(
        self,
        pending: PendingResponse,
        error: Exception,
        reply: Reply,
        connection: ConnectionContext,
        waiter: GateWaiter,
    ) -> PendingResponse:
        """An answer that is sent after a delay and is the last answer of its connection."""
        if isinstance(error, SaslError):
            reason = str(error)
        else:
            logger.error("the check of a login with %s failed", self._mechanism, exc_info=error)
            reason = "The login could not be checked."
        self._state = _State.OVER
        self._count_failure()
        self._note_refusal(connection, reason)

        def refuse() -> None:
            pending.parts = reply.refused(reason)
            pending.close_reason = f"a login with {self._mechanism} failed: {reason}"
            pending.ready = True
            waiter.response_ready()

        self._scheduler.call_later(self._settings.failure_delay_seconds, refuse)
        return pending

    def _note_refusal(self, connection: ConnectionContext, reason: str) -> None:
        if self._audit is None:
            return
        user = None if self._exchange is None else self._exchange.user or None
        self._audit.note_login(
            address=connection.client_host,
            listener=connection.listener.name,
            mechanism=self._mechanism,
            principal=None if user is None else str(Principal("User", user)),
            reason=reason,
            is_again=self._session is not None,
        )

    def _count_failure(self) -> None:
        self._counts.count_failure(is_first=self._session is None)
