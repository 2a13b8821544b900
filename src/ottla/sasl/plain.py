"""PLAIN (RFC 4616): one token with an authorization id, a user and a password, separated by zero bytes."""

from __future__ import annotations

from collections.abc import Callable

from ottla.model.deferred import Deferred
from ottla.sasl.exchange import SaslError

__all__ = ["PlainClient", "PlainServer"]


class PlainServer:
    """`check` returns whether the user has this password, or a Deferred of it."""

    has_token = False
    groups: tuple[str, ...] = ()

    def __init__(self, check: Callable[[str, str], bool | Deferred[bool]]) -> None:
        self._check = check
        self.is_complete = False
        self.user = ""
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes | Deferred[bytes]:
        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:
            raise SaslError("The token of PLAIN must be UTF-8 with exactly two zero bytes.") from None
        if not user or not password:
            raise SaslError("PLAIN needs a user and a password.")
        outcome = self._check(user, password)
        if isinstance(outcome, Deferred):
            return outcome.then(lambda is_right: self._finish(user, authorization_id, is_right=is_right))
        return self._finish(user, authorization_id, is_right=outcome)

    def _finish(self, user: str, authorization_id: str, *, is_right: bool) -> bytes:
        if not is_right:
            raise SaslError("Invalid username or password")
        # Otherwise a user could act in another user's name (CVE-2017-12610).
        if authorization_id and authorization_id != user:
            raise SaslError("A client that asks for another authorization id than its user is refused.")
        self.user, self.is_complete = user, True
        return b""


class PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()
        self.is_complete = False

    def begin(self) -> bytes:
        return self._token

    def evaluate(self, challenge: bytes) -> None:
        if challenge:
            raise SaslError("The server has sent a challenge, which PLAIN does not have.")
        self.is_complete = True
