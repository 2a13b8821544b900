"""The SASL login of a node at another node (KIP-43, KIP-152): after the versions are known, before the first request.

A login may end after some time (KIP-368). Then the same steps are repeated on the open connection; requests that arrive
meanwhile wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ottla.model.errors import ErrorCode
from ottla.wire.api import API_SPECS, ApiKey, ApiSpec
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.peers import PeerUnsupported

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.wire.connection.client import ClientConnection
    from ottla.wire.message import Message
    from ottla.wire.peers import PeerUnreachable

__all__ = ["ConnectionLogin", "Login", "TokenExchange"]

# Version 1 puts the tokens into SaslAuthenticate requests.
_HANDSHAKE_VERSION = 1
_VERSION_MAX = 32767


class TokenExchange(Protocol):
    """The client's end of a mechanism (`ottla.sasl.exchange.ClientExchange`)."""

    # True once the server has proven itself, where the mechanism provides for it.
    is_complete: bool

    def begin(self) -> bytes: ...


class Login(Protocol):
    """The credentials of the asking end."""

    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """For messages."""

    def new_exchange(self, host: str) -> Deferred[TokenExchange]:
        """The client's end of an exchange with the node of this host. A credential may have to be fetched first."""

    def evaluate(self, exchange: TokenExchange, challenge: bytes) -> Deferred[bytes | None]:
        """The next token, or None if there is none. Deriving keys takes milliseconds."""


class ConnectionLogin:
    """The steps of a login on a connection. `on_done` is called when requests may be sent; `wake` when bytes wait."""

    def __init__(
        self,
        connection: ClientConnection,
        login: Login,
        *,
        host: str,
        on_done: Callable[[], object],
        wake: Callable[[], object],
    ) -> None:
        self._connection = connection
        self._login = login
        self._host = host
        self._on_done = on_done
        self._wake = wake
        self._exchange: TokenExchange | None = None
        # For how long the login is valid; 0 for a login without an end.
        self.session_ms = 0

    def begin(self) -> None:
        exchange = self._login.new_exchange(self._host)
        if exchange.done:
            self._on_exchange(exchange)
        else:
            exchange.when_done(self._on_late_exchange)

    def _on_late_exchange(self, exchange: Deferred[TokenExchange]) -> None:
        if self._connection.close_reason is None:
            self._on_exchange(exchange)
            self._wake()

    def _on_exchange(self, exchange: Deferred[TokenExchange]) -> None:
        if exchange.error is not None:
            self._fail(str(exchange.error))
            return
        self._exchange = exchange.result()
        request = SaslHandshakeRequest(mechanism=self._login.mechanism)
        self._ask(request, ApiKey.SASL_HANDSHAKE, self._on_handshake, _HANDSHAKE_VERSION)

    def _on_handshake(self, response: SaslHandshakeResponse) -> None:
        assert self._exchange is not None
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "none"
            self._fail(f"it does not offer the SASL mechanism {self._login.mechanism}; it offers {offered}")
        elif response.error_code:
            self._fail("its listener expects no login")
        else:
            self._authenticate(self._exchange.begin())

    def _authenticate(self, token: bytes) -> None:
        request = SaslAuthenticateRequest(auth_bytes=token)
        self._ask(request, ApiKey.SASL_AUTHENTICATE, self._on_authenticated, _VERSION_MAX)

    def _on_authenticated(self, response: SaslAuthenticateResponse) -> None:
        assert self._exchange is not None
        if response.error_code:
            reason = response.error_message or f"error {response.error_code}"
            self._fail(f"it refused the login of {self._login.user} with {self._login.mechanism}: {reason}")
            return
        self.session_ms = response.session_lifetime_ms
        evaluated = self._login.evaluate(self._exchange, bytes(response.auth_bytes))
        if evaluated.done:
            self._on_token(evaluated)
        else:
            evaluated.when_done(self._on_late_token)

    def _on_late_token(self, evaluated: Deferred[bytes | None]) -> None:
        if self._connection.close_reason is None:
            self._on_token(evaluated)
            self._wake()

    def _on_token(self, evaluated: Deferred[bytes | None]) -> None:
        assert self._exchange is not None
        if evaluated.error is not None:
            self._fail(str(evaluated.error))
        elif (token := evaluated.result()) is not None:
            self._authenticate(token)
        elif not self._exchange.is_complete:
            self._fail("it ended the login too early")
        else:
            self._exchange = None
            self._on_done()

    def _ask(self, request: Message, key: ApiKey, on_response: Callable[[Any], object], version_max: int) -> None:
        spec = API_SPECS[key]
        try:
            version = self._connection.version_for(spec, version_max)
        except PeerUnsupported as error:
            self._fail(str(error))
            return
        self._connection.write(_Step(request, spec, version, on_response))

    def _fail(self, reason: str) -> None:
        self._connection.close_reason = f"cannot log in: {reason}"


class _Step:
    """A request of the login."""

    __slots__ = ("_on_response", "api_version", "correlation_id", "is_answered", "request", "spec", "version_max")

    def __init__(self, request: Message, spec: ApiSpec, version: int, on_response: Callable[[Any], object]) -> None:
        self.request = request
        self.spec = spec
        self.version_max = version
        self.api_version = version
        self.correlation_id = 0
        self.is_answered = True
        self._on_response = on_response

    def finish(self, response: Any) -> None:
        self._on_response(response)

    def fail(self, error: PeerUnreachable) -> None:
        """The connection ends, and with it the requests that wait for the login."""
