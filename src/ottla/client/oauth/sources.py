"""Sources of tokens: a function of the program, a file, a token endpoint, or the client (unsigned, for tests)."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ottla.client.errors import AuthenticationFailed
from ottla.client.oauth.tokens import ClientToken, TokenSource

__all__ = ["ClientCredentials", "from_callable", "from_endpoint", "from_file", "unsecured"]

# Of an identity provider's answer.
ANSWER_BYTES_MAX = 1 << 20
TOKEN_BYTES_MAX = 256 * 1024


class ClientCredentials(NamedTuple):
    """The client credentials grant (RFC 6749, section 4.4)."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    timeout_seconds: float = 10.0
    # The pause before the next attempt, which doubles, up to a limit. A refusal is not tried again.
    retry_seconds: float = 0.1
    retry_seconds_max: float = 10.0

    def __repr__(self) -> str:
        """Without the secret."""
        return f"ClientCredentials(url={self.url!r}, client_id={self.client_id!r})"


def from_callable(function: Callable[[], str | ClientToken | Awaitable[str | ClientToken]]) -> TokenSource:
    """A function or coroutine function that returns a token. A plain function runs in a thread."""

    async def fetch() -> ClientToken:
        try:
            made: Any = function() if asyncio.iscoroutinefunction(function) else asyncio.to_thread(function)
            outcome = await made
        except Exception as error:
            raise AuthenticationFailed(f"The program's function for tokens failed: {type(error).__name__}.") from error
        return outcome if isinstance(outcome, ClientToken) else ClientToken.of(str(outcome))

    return fetch


def from_file(path: str) -> TokenSource:
    """The content of a file, read again for every token: another program may replace it."""

    def read() -> ClientToken:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(TOKEN_BYTES_MAX).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise AuthenticationFailed(f"The file of the token cannot be read: {reason}.") from None
        if not text:
            raise AuthenticationFailed("The file of the token is empty.")
        return ClientToken.of(text)

    return lambda: asyncio.to_thread(read)


def from_endpoint(credentials: ClientCredentials) -> TokenSource:
    async def fetch() -> ClientToken:
        pause, deadline = credentials.retry_seconds, time.monotonic() + credentials.timeout_seconds
        while True:
            try:
                return await asyncio.to_thread(_request_token, credentials)
            except _TryAgain as error:
                if time.monotonic() + pause > deadline:
                    raise AuthenticationFailed(f"The token endpoint {credentials.url} {error}.") from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, credentials.retry_seconds_max)

    return fetch


def unsecured(claims: Mapping[str, object], *, lifetime_seconds: int = 3600) -> TokenSource:
    """Unsigned tokens, which a server accepts only if it was told to. For tests."""

    async def make() -> ClientToken:
        now = time.time()
        payload = {"iat": now, "exp": now + lifetime_seconds, **claims}
        parts = [_encoded({"alg": "none"}), _encoded(payload), ""]
        return ClientToken.of(".".join(parts))

    return make


class _TryAgain(Exception):
    """The endpoint cannot be reached, or has an error of its own."""


def _request_token(credentials: ClientCredentials) -> ClientToken:
    # Imported with the first request: a client without OAuth does not load HTTP.
    from urllib.error import HTTPError, URLError
    from urllib.parse import urlencode
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class NoRedirects(HTTPRedirectHandler):
        """A redirection could lead to an address that is not allowed."""

        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None

    form = {"grant_type": "client_credentials"}
    if credentials.scope:
        form["scope"] = credentials.scope
    pair = f"{credentials.client_id}:{credentials.client_secret}".encode()
    request = Request(
        credentials.url,
        data=urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        with build_opener(NoRedirects).open(request, timeout=credentials.timeout_seconds) as answer:
            body = answer.read(ANSWER_BYTES_MAX + 1)
    except HTTPError as error:
        error.close()
        if error.code >= 500 or error.code == 429:
            raise _TryAgain(f"answers with status {error.code}") from None
        raise AuthenticationFailed(
            f"The token endpoint {credentials.url} refuses the client {credentials.client_id} with status "
            f"{error.code}; check its id, its secret and the scope."
        ) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise _TryAgain(f"cannot be reached: {reason}") from None
    return _token_of(body, credentials.url)


def _token_of(body: bytes, url: str) -> ClientToken:
    try:
        fields = json.loads(body) if len(body) <= ANSWER_BYTES_MAX else None
    except ValueError:
        fields = None
    token = fields.get("access_token") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"The answer of the token endpoint {url} has no access_token.")
    lifetime = fields.get("expires_in")
    return ClientToken.of(token, lifetime_seconds=lifetime if isinstance(lifetime, (int, float)) else None)


def _encoded(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
