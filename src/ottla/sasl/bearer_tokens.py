"""Checks of the tokens of OAUTHBEARER: signed ones (KIP-768), and unsecured ones for tests.

A signed token is a JWT (RFC 7519). Its signature is made with a key of the identity provider, its issuer and one of its
audiences are the expected ones, and it is valid now. Every check uses values of the node's own configuration; the
header of a token only selects one of the known keys.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.model.deferred import Deferred
from ottla.sasl.key_set import ALGORITHMS, KeySet, PublicKey
from ottla.sasl.oauthbearer import BearerToken, TokenRefused

if TYPE_CHECKING:
    from ottla.model.ports import Clock

__all__ = ["BearerRules", "SignedTokens", "UnsecuredTokens"]

_KNOWN_ALGORITHMS = frozenset(name for names in ALGORITHMS.values() for name in names)
USER_CHARACTERS_MAX = 1_000
# A token with more groups is refused: an ACL might deny access to a group that was left out.
GROUPS_MAX = 1_000
# Unauthenticated clients send tokens, too, and decoding a long token takes long.
TOKEN_CHARACTERS_MAX = 32_768
HEADER_CHARACTERS_MAX = 4_096


class BearerRules(NamedTuple):
    """Which claims a token must have."""

    issuer: str
    audiences: tuple[str, ...]
    skew_seconds: int = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"
    # The claim that lists the groups of the user; empty if groups are not read.
    groups_claim: str = ""


class SignedTokens:
    def __init__(self, keys: KeySet, rules: BearerRules, clock: Clock) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock

    def validate(self, token: str) -> BearerToken | Deferred[BearerToken]:
        """Returns a Deferred if the keys have to be read again first. Raises TokenRefused."""
        from jwt import get_unverified_header
        from jwt.exceptions import PyJWTError

        _ensure_short(token)
        try:
            header = get_unverified_header(token)
        except (PyJWTError, ValueError, RecursionError):
            raise TokenRefused("The token is no signed JWT.") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in _KNOWN_ALGORITHMS:
            raise TokenRefused("The token is not signed with an algorithm that is allowed.")
        # `crit` names extensions that must be understood (RFC 7515, section 4.1.11). None is supported.
        if "crit" in header or not isinstance(key_id, str | None):
            raise TokenRefused("The header of the token is not understood.")
        key = self._keys.find(key_id, algorithm)
        if isinstance(key, Deferred):
            return key.then(lambda public_key: self._check(token, algorithm, public_key))
        return self._check(token, algorithm, key)

    def _check(self, token: str, algorithm: str, key: PublicKey | None) -> BearerToken:
        from jwt import decode
        from jwt.exceptions import InvalidAudienceError, InvalidIssuerError, PyJWTError

        if key is None:
            raise TokenRefused("The token is signed with a key that is not known.")
        rules = self._rules
        # The times are checked below, with the clock of the node.
        options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
        options["require"] = ["exp", "iat", "iss", "aud"]
        try:
            claims = decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=list(rules.audiences),
                issuer=rules.issuer,
                options=options,
            )
        except InvalidAudienceError:
            raise TokenRefused("The token is meant for another audience.") from None
        except InvalidIssuerError:
            raise TokenRefused("The token comes from another issuer.") from None
        except (PyJWTError, ValueError, TypeError, RecursionError):
            raise TokenRefused("The token is not valid: its signature or its claims are wrong.") from None
        return _checked_claims(claims, rules, self._clock.now_ms())


class UnsecuredTokens:
    """Tokens without a signature. Any client can make them, so a node accepts them only if it is configured to."""

    def __init__(self, rules: BearerRules, clock: Clock, *, required_scopes: tuple[str, ...] = ()) -> None:
        self._rules = rules
        self._clock = clock
        self._required_scopes = required_scopes

    def validate(self, token: str) -> BearerToken:
        _ensure_short(token)
        header, claims, signature = _parts(token)
        if header.get("alg") != "none" or signature:
            raise TokenRefused("The token is signed, and this listener takes unsecured ones.")
        checked = _checked_claims(claims, self._rules, self._clock.now_ms(), is_dated=False)
        if not set(self._required_scopes) <= set(_scopes(claims, self._rules.scope_claim)):
            raise TokenRefused("The token lacks a scope that is required.")
        return checked


def _ensure_short(token: str) -> None:
    if len(token) > TOKEN_CHARACTERS_MAX or token.find(".") > HEADER_CHARACTERS_MAX:
        raise TokenRefused("The token is too long.")


def _checked_claims(
    claims: Mapping[str, Any], rules: BearerRules, now_ms: int, *, is_dated: bool = True
) -> BearerToken:
    skew_ms = rules.skew_seconds * 1000
    expires_ms = _time_ms(claims, "exp")
    issued_ms, valid_from_ms = _time_ms(claims, "iat"), _time_ms(claims, "nbf")
    if expires_ms is None or (is_dated and issued_ms is None):
        raise TokenRefused("The token does not say when it was issued and when it expires.")
    if expires_ms + skew_ms <= now_ms:
        raise TokenRefused("The token has expired.")
    if any(start is not None and start - skew_ms > now_ms for start in (issued_ms, valid_from_ms)):
        raise TokenRefused("The token is not valid yet.")
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip() or len(user) > USER_CHARACTERS_MAX:
        raise TokenRefused(f"The token has no claim {rules.user_claim} that names its user.")
    _ensure_unicode(user, rules.user_claim)
    _scopes(claims, rules.scope_claim)
    return BearerToken(user, expires_ms, _groups(claims, rules.groups_claim) if rules.groups_claim else ())


def _ensure_unicode(text: str, claim: str) -> None:
    """Refuses lone surrogates: JSON can express them, but UTF-8 for files and other nodes cannot."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise TokenRefused(f"The claim {claim} of the token is no Unicode text.")


def _groups(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    """The groups in the claim: a list of names, or one name. A user without the claim has no groups."""
    value = claims.get(claim, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise TokenRefused(f"The claim {claim} of the token is no list of groups.")
    if len(names) > GROUPS_MAX or any(len(name) > USER_CHARACTERS_MAX for name in names):
        raise TokenRefused(f"The claim {claim} of the token has too many groups, or a name that is too long.")
    for name in names:
        _ensure_unicode(name, claim)
    return tuple(dict.fromkeys(names))


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    # Up to the year 5138: a larger number would not fit into the protocol.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e11:
        raise TokenRefused(f"The claim {name} of the token is no time.")
    return int(value * 1000)


def _scopes(claims: Mapping[str, Any], name: str) -> list[str]:
    value = claims.get(name, "")
    scopes = value.split() if isinstance(value, str) else value
    if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
        raise TokenRefused(f"The claim {name} of the token is no list of scopes.")
    return scopes


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, _, rest = token.partition(".")
    payload, _, signature = rest.partition(".")
    try:
        decoded = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (header, payload)]
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefused("The token is no JWT.") from None
    if not all(isinstance(part, dict) for part in decoded):
        raise TokenRefused("The token is no JWT.")
    return decoded[0], decoded[1], signature
