"""Bearer tokens (JWT) of clients, with the checks of OAUTHBEARER on brokers."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.error import HTTPError

from ottla.model.deferred import Deferred
from ottla.sasl.bearer_tokens import BearerRules, SignedTokens
from ottla.sasl.key_set import KeySet
from ottla.sasl.oauthbearer import BearerToken, TokenRefused

__all__ = ["BearerRules", "BearerTokens"]

T = TypeVar("T")
_REFRESH_SECONDS = 3600.0
_FETCH_SECONDS = 10.0
_DOCUMENT_BYTES_MAX = 1 << 20


class BearerTokens:
    """`url` is the address of the public keys (JWKS): https:, http: or file:."""

    def __init__(self, url: str, rules: BearerRules) -> None:
        world: Any = _World()
        self._keys = KeySet(lambda: _document(url), world, refresh_seconds=_REFRESH_SECONDS)
        self._tokens = SignedTokens(self._keys, rules, world.clock)

    async def load(self) -> None:
        """Reads the keys. Raises OSError or ValueError."""
        await asyncio.to_thread(self._keys.load)

    async def user_of(self, token: str) -> str | None:
        """The user of a token, or None if it is refused."""
        try:
            outcome = self._tokens.validate(token)
            if isinstance(outcome, Deferred):
                outcome = await _awaited(outcome)
        except TokenRefused:
            return None
        return outcome.user


async def _awaited(deferred: Deferred[BearerToken]) -> BearerToken:
    arrived = asyncio.Event()
    deferred.when_done(lambda _: arrived.set())
    await arrived.wait()
    return deferred.result()


class _World:
    """The clock and the threads that a set of keys needs."""

    def __init__(self) -> None:
        self.clock = self
        self.workers = self

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        return time.monotonic()

    def submit(self, function: Callable[[], T]) -> Deferred[T]:
        deferred: Deferred[T] = Deferred()

        def finish(done: asyncio.Future[T]) -> None:
            error = done.exception()
            if error is None:
                deferred.resolve(done.result())
            else:
                deferred.fail(error)

        asyncio.get_running_loop().run_in_executor(None, function).add_done_callback(finish)
        return deferred


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to the keys of another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _document(url: str) -> bytes:
    try:
        with urllib.request.build_opener(_NoRedirects).open(url, timeout=_FETCH_SECONDS) as answer:
            document: bytes = answer.read(_DOCUMENT_BYTES_MAX + 1)
    except HTTPError as error:
        error.close()
        raise OSError(f"the server answers with status {error.code}") from None
    if len(document) > _DOCUMENT_BYTES_MAX:
        raise OSError(f"the document is larger than {_DOCUMENT_BYTES_MAX} bytes")
    return document
