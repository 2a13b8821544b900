"""OAUTHBEARER (RFC 7628, KIP-255): a client proves who it is with a token of an identity provider.

    client   n,,<01>auth=Bearer <token><01><01>
    server   (nothing)                          or a JSON object with the error, after which
    client                                      <01> ends the exchange

Extensions (KIP-342) follow the token as `key=value<01>`. They are parsed and have no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from ottla.model.deferred import Deferred
from ottla.sasl.exchange import SaslError

__all__ = ["BearerToken", "OAuthBearerClient", "OAuthBearerServer", "TokenRefused"]

_END = b"\x01"
# Unauthenticated clients send messages, too, and parsing a long message takes long.
MESSAGE_BYTES_MAX = 65_536
_FIRST = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[^=,\0]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x00-\x08\x0b\x0c\x0e-\x1f]*\x01)*)\x01"
)
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[-._~+/A-Za-z0-9]+=*)")


class BearerToken(NamedTuple):
    """A checked token: its user, expiry and groups."""

    user: str
    expires_ms: int
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"a token of {self.user}"


class TokenRefused(Exception):
    """The token is not valid. The message goes to the client: it contains neither the token nor its claims."""


class OAuthBearerServer:
    """`validate` returns the checked token, or a Deferred of it, or raises TokenRefused."""

    has_token = False

    def __init__(self, validate: Callable[[str], BearerToken | Deferred[BearerToken]]) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self._is_begun = False
        self.is_complete = False
        self.user = ""
        self.groups: tuple[str, ...] = ()
        self.expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes | Deferred[bytes]:
        if self._refusal is not None:
            raise SaslError(self._refusal)
        if self._is_begun:
            raise SaslError("The exchange is over.")
        self._is_begun = True
        value, authorization_id = _parsed(token)
        try:
            outcome = self._validate(value)
        except TokenRefused as error:
            return self._refuse(error)
        if not isinstance(outcome, Deferred):
            return self._finish(outcome, authorization_id)
        return outcome.then(lambda checked: self._finish(checked, authorization_id)).recover(TokenRefused, self._refuse)

    def _finish(self, checked: BearerToken, authorization_id: str) -> bytes:
        # Otherwise a user could act in another user's name (CVE-2017-12610).
        if authorization_id and authorization_id != checked.user:
            raise SaslError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.user, self.groups, self.expires_ms = checked.user, checked.groups, checked.expires_ms
        self.is_complete = True
        return b""

    def _refuse(self, error: TokenRefused) -> bytes:
        """Sends the refusal as a challenge. The exchange fails with the client's next token."""
        self._refusal = str(error)
        return json.dumps({"status": "invalid_token"}, separators=(",", ":")).encode()


def _parsed(message: bytes) -> tuple[str, str]:
    """The token and the authorization id."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise SaslError("The first message of OAUTHBEARER is too long.")
    try:
        first = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        first = None
    if first is None:
        raise SaslError("The first message of OAUTHBEARER is malformed.")
    pairs: dict[str, str] = {}
    for pair in first["pairs"].split("\x01")[:-1]:
        name, _, value = pair.partition("=")
        if name in pairs:
            raise SaslError("The first message of OAUTHBEARER is malformed.")
        pairs[name] = value
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise SaslError("The first message of OAUTHBEARER has no bearer token.")
    identity = first["authorization_id"] or ""
    return bearer["token"], identity.replace("=2C", ",").replace("=3D", "=")


class OAuthBearerClient:
    def __init__(self, token: str, *, extensions: dict[str, str] | None = None) -> None:
        if _BEARER.fullmatch(f"Bearer {token}") is None:
            raise SaslError("The token contains characters that a bearer token cannot have.")
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        self._first = "n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01"
        self._refusal = ""
        self.is_complete = False

    def begin(self) -> bytes:
        return self._first.encode()

    def evaluate(self, challenge: bytes) -> bytes | None:
        if not challenge:
            self.is_complete = not self._refusal
            return None
        # The server refuses the token. It gives the reason after this last message.
        self._refusal = challenge.decode(errors="replace")
        return _END
