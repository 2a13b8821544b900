"""Sources of tokens: a function of the program, a file, a token endpoint, or the client (unsigned, for tests)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ottla.client.errors import AuthenticationFailed
from ottla.client.oauth.tokens import ClientToken, TokenSource, token_of
from ottla.sasl.client_tokens import (
    ANSWER_BYTES_MAX,
    TOKEN_BYTES_MAX,
    ClientCredentials,
    grant_request,
    refusal_of,
    token_in_answer,
    unsecured_token,
)
from ottla.sasl.exchange import SaslError

__all__ = ["ClientCredentials", "from_callable", "from_endpoint", "from_file", "unsecured"]


def from_callable(function: Callable[[], str | ClientToken | Awaitable[str | ClientToken]]) -> TokenSource:
    """A function or coroutine function that returns a token. A plain function runs in a thread."""

    async def fetch() -> ClientToken:
        try:
            pending: Any = function() if asyncio.iscoroutinefunction(function) else asyncio.to_thread(function)
            outcome = await pending
        except Exception as error:
            raise AuthenticationFailed(f"The program's function for tokens failed: {type(error).__name__}.") from error
        return outcome if isinstance(outcome, ClientToken) else token_of(str(outcome))

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
        return token_of(text)

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
    """Unsigned tokens, which a server accepts only if it is configured so. For tests."""

    async def make() -> ClientToken:
        return unsecured_token(claims, now_seconds=time.time(), lifetime_seconds=lifetime_seconds)

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

    headers, form = grant_request(credentials)
    request = Request(credentials.url, data=urlencode(form).encode(), headers=headers)
    try:
        with build_opener(NoRedirects).open(request, timeout=credentials.timeout_seconds) as answer:
            body = answer.read(ANSWER_BYTES_MAX + 1)
    except HTTPError as error:
        error.close()
        if error.code >= 500 or error.code == 429:
            raise _TryAgain(f"answers with status {error.code}") from None
        raise AuthenticationFailed(refusal_of(credentials, error.code)) from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise _TryAgain(f"cannot be reached: {reason}") from None
    try:
        return token_in_answer(body, credentials.url, now_ms=int(time.time() * 1000))
    except SaslError as error:
        raise AuthenticationFailed(str(error)) from None
