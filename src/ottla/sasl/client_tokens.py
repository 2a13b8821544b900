"""Bearer tokens of a client: their expiry, unsecured tokens, and the client credentials grant as form and answer.

No I/O: clients and nodes send the form to a token endpoint themselves.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.sasl.exchange import SaslError

__all__ = [
    "ANSWER_BYTES_MAX",
    "TOKEN_BYTES_MAX",
    "ClientCredentials",
    "ClientToken",
    "claims_of",
    "extensions_of",
    "grant_request",
    "refusal_of",
    "token_in_answer",
    "unsecured_claims",
    "unsecured_token",
]

# Of a token endpoint's answer, and of a file with a token.
ANSWER_BYTES_MAX = 1 << 20
TOKEN_BYTES_MAX = 256 * 1024

_STRING_CLAIM, _NUMBER_CLAIM = "unsecuredLoginStringClaim_", "unsecuredLoginNumberClaim_"
_EXTENSION = "extension_"


class ClientToken(NamedTuple):
    value: str
    # In milliseconds since 1970; None if the token has no expiry.
    expires_ms: int | None = None

    def __repr__(self) -> str:
        """Without the token, which is a secret."""
        return f"ClientToken(expires_ms={self.expires_ms})"

    @classmethod
    def received(cls, value: str, *, now_ms: int, lifetime_seconds: float | None = None) -> ClientToken:
        """The expiry comes from the claims, else from the identity provider's answer."""
        expiry = claims_of(value).get("exp")
        if isinstance(expiry, (int, float)) and not isinstance(expiry, bool):
            return cls(value, int(expiry * 1000))
        return cls(value, None if lifetime_seconds is None else now_ms + int(lifetime_seconds * 1000))

    def stale_at_ms(self, now_ms: int, window_factor: float) -> float:
        """The time at which this share of the token's remaining life has passed."""
        life_ms = float("inf") if self.expires_ms is None else self.expires_ms - now_ms
        return now_ms + life_ms * window_factor


class ClientCredentials(NamedTuple):
    """The client credentials grant (RFC 6749, section 4.4)."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    timeout_seconds: float = 10.0
    # The pause before the next attempt, which doubles up to a limit. A refused request is not repeated.
    retry_seconds: float = 0.1
    retry_seconds_max: float = 10.0

    def __repr__(self) -> str:
        """Without the secret."""
        return f"ClientCredentials(url={self.url!r}, client_id={self.client_id!r})"


def grant_request(credentials: ClientCredentials) -> tuple[dict[str, str], dict[str, str]]:
    """Headers and form of the request to the token endpoint."""
    form = {"grant_type": "client_credentials"}
    if credentials.scope:
        form["scope"] = credentials.scope
    pair = f"{credentials.client_id}:{credentials.client_secret}".encode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return headers, form


def refusal_of(credentials: ClientCredentials, status: int) -> str:
    """The sentence for a status with which the endpoint refuses the client."""
    return (
        f"The token endpoint {credentials.url} refuses the client {credentials.client_id} with status {status}; check "
        "its id, its secret and the scope."
    )


def token_in_answer(body: bytes, url: str, *, now_ms: int) -> ClientToken:
    """The token of an endpoint's answer; raises SaslError if there is none."""
    try:
        fields = json.loads(body) if len(body) <= ANSWER_BYTES_MAX else None
    except ValueError:
        fields = None
    token = fields.get("access_token") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(token, str) or not token:
        raise SaslError(f"The answer of the token endpoint {url} has no access_token.")
    lifetime = fields.get("expires_in")
    return ClientToken.received(
        token, now_ms=now_ms, lifetime_seconds=lifetime if isinstance(lifetime, (int, float)) else None
    )


def unsecured_token(claims: Mapping[str, object], *, now_seconds: float, lifetime_seconds: int) -> ClientToken:
    """An unsigned token, which a server accepts only if it is configured to. For tests."""
    payload = {"iat": now_seconds, "exp": now_seconds + lifetime_seconds, **claims}
    value = ".".join((_encoded({"alg": "none"}), _encoded(payload), ""))
    return ClientToken.received(value, now_ms=int(now_seconds * 1000))


def unsecured_claims(options: Mapping[str, str]) -> dict[str, object]:
    """The claims of unsecured tokens in the options of a login module. Raises SaslError for an invalid number."""
    claims: dict[str, object] = {}
    for name, value in options.items():
        if name.startswith(_STRING_CLAIM):
            claims[name.removeprefix(_STRING_CLAIM)] = value
        elif name.startswith(_NUMBER_CLAIM):
            try:
                claims[name.removeprefix(_NUMBER_CLAIM)] = float(value)
            except ValueError:
                raise SaslError(f"{name}={value!r} is not a number.") from None
    return claims


def extensions_of(options: Mapping[str, str]) -> dict[str, str]:
    """The extensions (KIP-342) in the options of a login module."""
    return {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}


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


def _encoded(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
