"""Pending logins at an identity provider: the browser keeps them in a signed cookie.

The server keeps nothing, so requests of strangers cannot fill its memory. The nonce and the verifier of PKCE are
derived from the state and a key of this process; they are not in the cookie. After a restart of the console, a pending
login begins again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["LoginTicket", "LoginTickets", "TICKET_SECONDS"]

TICKET_SECONDS = 600.0


class LoginTicket(NamedTuple):
    state: str
    # The address to which the provider sends the browser, and the page after the login.
    redirect: str
    to: str
    expires_at: float


class LoginTickets:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def new(self, *, redirect: str, to: str) -> LoginTicket:
        return LoginTicket(secrets.token_urlsafe(32), redirect, to, self._clock() + TICKET_SECONDS)

    def signed(self, ticket: LoginTicket) -> str:
        """The ticket as the text of a cookie."""
        content = base64.urlsafe_b64encode(json.dumps(ticket).encode()).decode()
        return f"{content}.{self._digest('ticket', content)}"

    def read(self, text: str | None, *, state: str) -> LoginTicket | None:
        """The ticket with this state; None if another console signed it, it is too old, or it is of another login."""
        content, _, digest = (text or "").rpartition(".")
        if not hmac.compare_digest(digest.encode(errors="replace"), self._digest("ticket", content).encode()):
            return None
        ticket = LoginTicket(*json.loads(base64.urlsafe_b64decode(content)))
        is_own = hmac.compare_digest(ticket.state.encode(), state.encode(errors="replace"))
        return ticket if is_own and self._clock() < ticket.expires_at else None

    def nonce(self, ticket: LoginTicket) -> str:
        return self._digest("nonce", ticket.state)

    def verifier(self, ticket: LoginTicket) -> str:
        """Proves to the provider that the login ends where it began (RFC 7636: 43 to 128 letters)."""
        return self._digest("verifier", ticket.state)

    def _digest(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}:{text}".encode(errors="replace"), hashlib.sha256).hexdigest()
