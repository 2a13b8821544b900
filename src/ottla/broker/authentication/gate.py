"""The gate of a SASL connection: a login comes before the first request (KIP-43, KIP-152).

    client   ApiVersions          optional; answered as on any listener
    client   SaslHandshake        names a mechanism
    client   SaslAuthenticate     a token of the mechanism; repeated until the exchange is complete

After SaslHandshake of version 0 the tokens come as frames without a header, and go back in the same way. Any other
request closes the connection. So does a failed login, after its answer; the answer is delayed
(`connection.failed.authentication.delay.ms`), which slows down those who try passwords.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection, ConnectionContext, Principal
from ottla.broker.pending import Part, PendingResponse, ResponseWaiter
from ottla.model.errors import ErrorCode
from ottla.sasl.exchange import SaslError, ServerExchange
from ottla.sasl.plain import PlainServer
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.sasl.scram import ScramKeys, ScramServer
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.framing import RequestHeader, parse_request_header, response_parts
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.authentication.settings import SaslSettings
    from ottla.metadata.publishers import Publishers
    from ottla.model.ports import Scheduler

__all__ = ["SaslGate"]

logger = logging.getLogger("ottla.broker.authentication")

_SIZE = struct.Struct(">i")
_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


class _State(Enum):
    HANDSHAKE = auto()
    # Tokens in frames of their own, after SaslHandshake of version 0; or in SaslAuthenticate requests.
    BARE_TOKENS = auto()
    REQUESTS = auto()
    OVER = auto()


class SaslGate:
    def __init__(self, settings: SaslSettings, metadata: Publishers, scheduler: Scheduler) -> None:
        self._settings = settings
        self._metadata = metadata
        self._scheduler = scheduler
        self._state = _State.HANDSHAKE
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self.is_open = False
        # Set when the answer that `take` has returned is the last one.
        self.close_reason: str | None = None

    @property
    def request_bytes_max(self) -> int:
        """A client that has not logged in may send no larger frame."""
        return self._settings.request_bytes_max

    def take(
        self, frame: memoryview, connection: ConnectionContext, waiter: ResponseWaiter
    ) -> list[Part] | PendingResponse | None:
        if self._state is _State.BARE_TOKENS:
            return self._take_bare_token(frame, connection)
        try:
            header = parse_request_header(frame)
            if header.api_key == ApiKey.API_VERSIONS:
                return None
            if header.api_key == ApiKey.SASL_HANDSHAKE and self._state is _State.HANDSHAKE:
                return self._shake_hands(frame, header)
            if header.api_key == ApiKey.SASL_AUTHENTICATE and self._state is _State.REQUESTS:
                return self._authenticate(frame, header, connection, waiter)
        except (MalformedMessage, struct.error, IndexError):
            raise CloseConnection("a malformed request before the login") from None
        name = API_SPECS[ApiKey(header.api_key)].name if header.api_key in API_SPECS else f"API key {header.api_key}"
        raise CloseConnection(f"a {name} request before the login was complete")

    def _shake_hands(self, frame: memoryview, header: RequestHeader) -> list[Part]:
        if header.api_version not in (0, 1):
            raise CloseConnection(f"a SaslHandshake request of version {header.api_version}")
        request, _ = decode(SaslHandshakeRequest, frame, header.api_version, header.body_position)
        mechanisms = list(self._settings.mechanisms)
        if request.mechanism not in mechanisms:
            self._state = _State.OVER
            self.close_reason = f"the mechanism {request.mechanism[:64]!r} is not offered by this listener"
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        else:
            self._mechanism = request.mechanism
            self._exchange = self._new_exchange(request.mechanism)
            self._state = _State.REQUESTS if header.api_version else _State.BARE_TOKENS
            response = SaslHandshakeResponse(mechanisms=mechanisms)
        return response_parts(header.api_key, header.api_version, header.correlation_id, response)

    def _authenticate(
        self, frame: memoryview, header: RequestHeader, connection: ConnectionContext, waiter: ResponseWaiter
    ) -> list[Part] | PendingResponse:
        if header.api_version not in (0, 1, 2):
            raise CloseConnection(f"a SaslAuthenticate request of version {header.api_version}")
        request, _ = decode(SaslAuthenticateRequest, frame, header.api_version, header.body_position)

        def answer(response: SaslAuthenticateResponse) -> list[Part]:
            return response_parts(header.api_key, header.api_version, header.correlation_id, response)

        try:
            token = self._evaluate(bytes(request.auth_bytes), connection)
        except SaslError as error:
            self._state = _State.OVER
            refused = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
            )
            return self._refuse_later(answer(refused), str(error), waiter)
        return answer(SaslAuthenticateResponse(error_message=None, auth_bytes=token))

    def _take_bare_token(self, frame: memoryview, connection: ConnectionContext) -> list[Part]:
        try:
            token = self._evaluate(bytes(frame), connection)
        except SaslError as error:
            # There is no answer with an error: a client of this age learns of it by the closed connection.
            raise CloseConnection(self._failure(str(error))) from None
        return [_SIZE.pack(len(token)) + token]

    def _evaluate(self, token: bytes, connection: ConnectionContext) -> bytes:
        exchange = self._exchange
        assert exchange is not None, "set by the handshake"
        answer = exchange.evaluate(token)
        if exchange.is_complete:
            connection.identify(Principal("User", exchange.user))
            self.is_open = True
            self._state = _State.OVER
            logger.debug("%s has logged in as User:%s", connection.connection_id, exchange.user)
        return answer

    def _refuse_later(self, parts: list[Part], reason: str, waiter: ResponseWaiter) -> PendingResponse:
        """An answer that is sent after a delay, and is the last one of its connection."""
        pending = PendingResponse(None, None, None, None)

        def refuse() -> None:
            pending.parts = parts
            pending.close_reason = self._failure(reason)
            pending.ready = True
            waiter.response_ready()

        self._scheduler.call_later(self._settings.failure_delay_seconds, refuse)
        return pending

    def _failure(self, reason: str) -> str:
        return f"a login with {self._mechanism} failed: {reason}"

    def _new_exchange(self, mechanism: str) -> ServerExchange:
        if mechanism in SCRAM_MECHANISMS:
            return ScramServer(mechanism, self._scram_keys(mechanism))
        return PlainServer(self._settings.is_password)

    def _scram_keys(self, mechanism: str) -> Callable[[str], ScramKeys | None]:
        def find(user: str) -> ScramKeys | None:
            kept: Any = self._metadata.image.scram.get((user, _NUMBERS[mechanism]))
            return None if kept is None else ScramKeys(*kept)

        return find
