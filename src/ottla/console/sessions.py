"""Sessions of browsers: a cookie, the account that was logged in, and the token against forged requests.

The token is an HMAC of the session id, so nothing is kept for a browser that is not logged in. A login gets a new
session id: an id that someone else has planted in a browser stays worthless.
"""

from __future__ import annotations

import hmac
import secrets
import time
from hashlib import sha256
from typing import NamedTuple

from aiohttp import web

from ottla.console.accounts import Account

__all__ = ["Sessions"]

IDLE_SECONDS_MAX = 8 * 3600.0
SECONDS_MAX = 12 * 3600.0
SESSIONS_MAX = 10_000
_ID_BYTES = 32


class _Entry(NamedTuple):
    account: Account
    began_at: float
    used_at: float


class Sessions:
    def __init__(self, cookie: str, *, is_secure: bool) -> None:
        self._cookie = cookie
        self._is_secure = is_secure
        self._key = secrets.token_bytes(32)
        self._entries: dict[str, _Entry] = {}

    def id_of(self, request: web.Request) -> str | None:
        return request.cookies.get(self._cookie)

    def account_of(self, session_id: str | None) -> Account | None:
        entry = None if session_id is None else self._entries.get(session_id)
        if session_id is None or entry is None:
            return None
        now = time.monotonic()
        if now - entry.used_at > IDLE_SECONDS_MAX or now - entry.began_at > SECONDS_MAX:
            del self._entries[session_id]
            return None
        self._entries[session_id] = entry._replace(used_at=now)
        return entry.account

    def new_id(self) -> str:
        return secrets.token_urlsafe(_ID_BYTES)

    def begin(self, account: Account) -> str:
        """A new session of an account; the least recently used one ends if there are too many."""
        session_id = self.new_id()
        if len(self._entries) >= SESSIONS_MAX:
            del self._entries[min(self._entries, key=lambda one: self._entries[one].used_at)]
        now = time.monotonic()
        self._entries[session_id] = _Entry(account, now, now)
        return session_id

    def accounts(self) -> list[Account]:
        """Accounts with a session."""
        return [entry.account for entry in self._entries.values()]

    def end(self, session_id: str | None) -> None:
        self._entries.pop(session_id or "", None)

    def token_of(self, session_id: str) -> str:
        return hmac.new(self._key, session_id.encode(), sha256).hexdigest()

    def is_token(self, session_id: str | None, token: str | None) -> bool:
        if session_id is None or token is None:
            return False
        return hmac.compare_digest(self.token_of(session_id).encode(), token.encode(errors="replace"))

    def put(self, answer: web.StreamResponse, session_id: str) -> None:
        answer.set_cookie(
            self._cookie, session_id, path="/", httponly=True, samesite="Lax", secure=self._is_secure or None
        )
