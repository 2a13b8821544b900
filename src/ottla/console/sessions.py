"""Sessions of browsers: a cookie, the account that was logged in, and the token against forged requests.

The token is an HMAC of the session id, so the server keeps nothing for a browser that is not logged in. A login gets a
new session id, so that an id that an attacker planted in the browser is worthless. Open streams end with their session.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import NamedTuple

from aiohttp import web

from ottla.console.accounts import Account
from ottla.console.answers import ApiError

__all__ = ["SECONDS_MAX", "SessionEnded", "Sessions"]

IDLE_SECONDS_MAX = 8 * 3600.0
SECONDS_MAX = 12 * 3600.0
SESSIONS_MAX = 10_000
# Sessions of a user. Without this limit, a user could end the sessions of other users by many logins.
SESSIONS_OF_USER_MAX = 100
_ID_BYTES = 32


class SessionEnded(ApiError):
    """The session of an open stream has ended: by a logout, or because it became too old."""

    def __init__(self) -> None:
        super().__init__(401, "NOT_LOGGED_IN", "Your session has ended.", "Log in again.")


class _Entry(NamedTuple):
    account: Account
    used_at: float
    # The session ends at this time at the latest, even if it is in use.
    ends_at: float

    @property
    def expires_at(self) -> float:
        return min(self.used_at + IDLE_SECONDS_MAX, self.ends_at)


class Sessions:
    def __init__(
        self,
        cookie: str,
        *,
        is_secure: Callable[[web.Request], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cookie = cookie
        self._is_secure = is_secure
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._entries: dict[str, _Entry] = {}
        # Session id -> the timeouts of its open streams. A stream ends when its timeout expires.
        self._streams: dict[str, set[asyncio.Timeout]] = {}

    def id_of(self, request: web.Request) -> str | None:
        return request.cookies.get(self._cookie)

    def account_of(self, session_id: str | None) -> Account | None:
        entry = None if session_id is None else self._entries.get(session_id)
        if session_id is None or entry is None:
            return None
        now = self._clock()
        if now >= entry.expires_at:
            self.end(session_id)
            return None
        self._entries[session_id] = used = entry._replace(used_at=now)
        self._reschedule(self._streams.get(session_id, set()), used.expires_at)
        return entry.account

    def new_id(self) -> str:
        return secrets.token_urlsafe(_ID_BYTES)

    def begin(self, account: Account, *, seconds_max: float = SECONDS_MAX) -> str:
        """Begins a session. At the limit of the user, or of all users, the least recently used session there ends."""
        now = self._clock()
        for expired_id in [known_id for known_id, entry in self._entries.items() if now >= entry.expires_at]:
            self.end(expired_id)
        own_ids = [known_id for known_id, entry in self._entries.items() if entry.account.user == account.user]
        if len(own_ids) >= SESSIONS_OF_USER_MAX:
            self._end_oldest(own_ids)
        elif len(self._entries) >= SESSIONS_MAX:
            self._end_oldest(self._entries)
        session_id = self.new_id()
        self._entries[session_id] = _Entry(account, now, now + min(seconds_max, SECONDS_MAX))
        return session_id

    def accounts(self) -> list[Account]:
        """Accounts with a session."""
        return [entry.account for entry in self._entries.values()]

    def end(self, session_id: str | None) -> None:
        self._entries.pop(session_id or "", None)
        self._reschedule(self._streams.pop(session_id or "", set()), self._clock())

    def _end_oldest(self, session_ids: Iterable[str]) -> None:
        self.end(min(session_ids, key=lambda session_id: self._entries[session_id].used_at))

    @asynccontextmanager
    async def stream(self, session_id: str | None) -> AsyncIterator[None]:
        """A stream that ends with its session. Raises SessionEnded then."""
        entry = self._entries.get(session_id or "")
        if session_id is None or entry is None:
            raise SessionEnded
        timeout = asyncio.timeout_at(self._loop_time(entry.expires_at))
        self._streams.setdefault(session_id, set()).add(timeout)
        try:
            async with timeout:
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            raise SessionEnded from None
        finally:
            streams = self._streams.get(session_id, set())
            streams.discard(timeout)
            if not streams:
                self._streams.pop(session_id, None)

    def _reschedule(self, streams: set[asyncio.Timeout], moment: float) -> None:
        for stream in streams:
            # The timeout of a stream that is ending already cannot be rescheduled.
            if not stream.expired():
                stream.reschedule(self._loop_time(moment))

    def _loop_time(self, moment: float) -> float:
        """The moment on the clock of the event loop."""
        return asyncio.get_running_loop().time() + moment - self._clock()

    def token_of(self, session_id: str) -> str:
        return hmac.new(self._key, session_id.encode(), sha256).hexdigest()

    def is_token(self, session_id: str | None, token: str | None) -> bool:
        if session_id is None or token is None:
            return False
        return hmac.compare_digest(self.token_of(session_id).encode(), token.encode(errors="replace"))

    def put(self, answer: web.StreamResponse, request: web.Request, session_id: str) -> None:
        is_secure = self._is_secure(request)
        answer.set_cookie(self._cookie, session_id, path="/", httponly=True, samesite="Lax", secure=is_secure or None)

    def ticket_of(self, request: web.Request) -> str | None:
        return request.cookies.get(f"{self._cookie}_login")

    def put_ticket(
        self, answer: web.StreamResponse, request: web.Request, ticket: str, *, path: str, seconds: float
    ) -> None:
        """Sets the cookie of a login that has begun. The browser sends it to the pages of the login only."""
        answer.set_cookie(
            f"{self._cookie}_login",
            ticket,
            path=path,
            max_age=int(seconds),
            httponly=True,
            samesite="Lax",
            secure=self._is_secure(request) or None,
        )
