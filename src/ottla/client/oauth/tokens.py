"""The login with a bearer token, which gets a new token before the old one expires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ottla.client.errors import AuthenticationFailed
from ottla.sasl.client_tokens import ClientToken
from ottla.sasl.exchange import ClientExchange, SaslError
from ottla.sasl.oauthbearer import OAuthBearerClient

__all__ = ["ClientToken", "OAuthLogin", "TokenSource", "token_of"]


TokenSource = Callable[[], Awaitable[ClientToken]]


class OAuthLogin:
    """Keeps the token until `window_factor` of its life has passed. Logins at the same time share one request."""

    mechanism = "OAUTHBEARER"

    def __init__(
        self,
        source: TokenSource,
        *,
        user: str = "",
        window_factor: float = 0.8,
        extensions: dict[str, str] | None = None,
    ) -> None:
        self._source = source
        self._window_factor = window_factor
        self._extensions = extensions
        self._token: ClientToken | None = None
        self._stale_at_ms = 0.0
        self._pending: asyncio.Future[ClientToken] | None = None
        self.user = user or "the client"

    def __repr__(self) -> str:
        return "OAuthLogin()"

    async def exchange(self, host: str) -> ClientExchange:  # noqa: ARG002
        token = await self._current()
        try:
            return OAuthBearerClient(token.value, extensions=self._extensions)
        except SaslError as error:
            raise AuthenticationFailed(str(error)) from None

    async def _current(self) -> ClientToken:
        if self._token is not None and _now_ms() < self._stale_at_ms:
            return self._token
        pending = self._pending
        # A future of another event loop is of no use here.
        if pending is None or pending.done() or pending.get_loop() is not asyncio.get_running_loop():
            pending = self._pending = asyncio.ensure_future(self._source())
        token = await asyncio.shield(pending)
        if token is not self._token:
            self._token = token
            self._stale_at_ms = token.stale_at_ms(_now_ms(), self._window_factor)
        return token


def token_of(value: str, *, lifetime_seconds: float | None = None) -> ClientToken:
    """A token that was received now."""
    return ClientToken.received(value, now_ms=_now_ms(), lifetime_seconds=lifetime_seconds)


def _now_ms() -> int:
    return int(time.time() * 1000)
