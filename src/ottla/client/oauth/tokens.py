"""A bearer token, and the login that gets a new one before the old one expires."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ottla.client.errors import AuthenticationFailed
from ottla.sasl.exchange import ClientExchange, SaslError
from ottla.sasl.oauthbearer import OAuthBearerClient

__all__ = ["ClientToken", "OAuthLogin", "TokenSource", "claims_of"]


class ClientToken(NamedTuple):
    value: str
    # In milliseconds since 1970; None if the token does not say.
    expires_ms: int | None = None

    def __repr__(self) -> str:
        """Without the token, which is a secret."""
        return f"ClientToken(expires_ms={self.expires_ms})"

    @classmethod
    def of(cls, value: str, *, lifetime_seconds: float | None = None) -> ClientToken:
        """The expiry time is that of the claims, or that of the identity provider's answer."""
        expiry = claims_of(value).get("exp")
        if isinstance(expiry, (int, float)) and not isinstance(expiry, bool):
            return cls(value, int(expiry * 1000))
        return cls(value, None if lifetime_seconds is None else _now_ms() + int(lifetime_seconds * 1000))


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
            now_ms = _now_ms()
            self._token = token
            life_ms = float("inf") if token.expires_ms is None else token.expires_ms - now_ms
            self._stale_at_ms = now_ms + life_ms * self._window_factor
        return token


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JWT, unchecked; empty for a token of another kind."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _now_ms() -> int:
    return int(time.time() * 1000)
