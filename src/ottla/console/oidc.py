"""Login by an identity provider: OpenID Connect's code flow with PKCE.

A login that has begun is a ticket in a cookie of the browser. The ID token is checked with the provider's keys, as
nodes check tokens of OAUTHBEARER. No token leaves the server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from aiohttp import BasicAuth, ClientSession, ClientTimeout
from aiohttp import ClientError as HttpClientError

from ottla.cli.logic.exposure import is_loopback
from ottla.console.answers import ApiError
from ottla.console.bodies import whole_body
from ottla.console.failed_logins import FailedLogins
from ottla.console.login_tickets import LoginTicket, LoginTickets
from ottla.console.provider_lookup import ProviderLookup
from ottla.registry.node.tokens import BearerRules, BearerTokens

__all__ = ["Identity", "OidcLogin", "OidcSettings"]

# The path of a longer page is dropped, because a cookie holds 4 KiB.
PAGE_MAX = 1_000
TIMEOUT_SECONDS = 10.0
DOCUMENT_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    issuer: str
    client_id: str
    client_secret: str | None = None
    user_claim: str = "sub"
    groups_claim: str = "groups"
    scope: str = "openid profile"
    # The cluster accepts the provider's access tokens over OAUTHBEARER.
    reaches_cluster: bool = False


class Identity(NamedTuple):
    user: str
    groups: tuple[str, ...]
    access_token: str
    # How long the access token is valid; None if the provider does not state it.
    lifetime_seconds: float | None


class _Provider(NamedTuple):
    """The provider's own description, and its keys."""

    document: dict[str, Any]
    tokens: BearerTokens


class OidcLogin:
    def __init__(self, settings: OidcSettings) -> None:
        _check_address(settings.issuer)
        self.settings = settings
        self._tickets = LoginTickets()
        self._failures = FailedLogins()
        self._provider = ProviderLookup(self._discover)
        self._session: ClientSession | None = None

    async def close(self) -> None:
        await self._provider.close()
        if self._session is not None:
            await self._session.close()

    async def begin(self, *, redirect: str, to: str) -> tuple[str, str]:
        """The address at the provider to which the browser goes, and the ticket that it brings back."""
        document = (await self._provider.get()).document
        ticket = self._tickets.new(redirect=redirect, to=_local(to))
        digest = hashlib.sha256(self._tickets.verifier(ticket).encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": self.settings.scope,
            "state": ticket.state,
            "nonce": self._tickets.nonce(ticket),
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{document['authorization_endpoint']}?{urlencode(query)}", self._tickets.signed(ticket)

    async def finish(self, signed: str | None, *, state: str, code: str, address: str | None) -> tuple[Identity, str]:
        """The user, and the page to which the browser goes.

        Raises ApiError 401, and 429 after many codes from this address that the provider does not know.
        """
        ticket = self._tickets.read(signed, state=state)
        if ticket is None:
            # This does not count as a failed login: a page of another site can make a browser send this request.
            raise ApiError(401, "LOGIN_FAILED", "This login did not begin in this browser.", "Log in again.")
        # The user of the code is not known yet, so failures are counted by address only.
        with self._failures.attempt("", address):
            return await self._identity(ticket, code), ticket.to

    async def _identity(self, ticket: LoginTicket, code: str) -> Identity:
        provider = await self._provider.get()
        answer = await self._token(provider.document, code, ticket)
        token = answer.get("id_token")
        user = await provider.tokens.user_of(token) if isinstance(token, str) else None
        if user is None:
            raise ApiError(401, "LOGIN_FAILED", "The identity provider's token is not accepted.")
        claims = _claims(str(token))
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), self._tickets.nonce(ticket).encode()):
            raise ApiError(401, "LOGIN_FAILED", "The identity provider's token belongs to another login.")
        groups = claims.get(self.settings.groups_claim)
        group_names = (
            tuple(f"Group:{group}" for group in groups if isinstance(group, str)) if isinstance(groups, list) else ()
        )
        access_token = str(answer.get("access_token", ""))
        return Identity(f"User:{user}", group_names, access_token, _lifetime(answer))

    async def _discover(self) -> _Provider:
        document = await self._ask("GET", f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self.settings.issuer:
            raise ApiError(502, "UPSTREAM", "The identity provider names another issuer than --oidc-issuer.")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            try:
                _check_address(str(document.get(name)))
            except ValueError as error:
                raise ApiError(502, "UPSTREAM", f"The identity provider's {name} is wrong: {error}") from None
        rules = BearerRules(
            issuer=self.settings.issuer,
            audiences=(self.settings.client_id,),
            user_claim=self.settings.user_claim,
        )
        tokens = BearerTokens(document["jwks_uri"], rules)
        try:
            await tokens.load()
        except (OSError, ValueError) as error:
            raise ApiError(502, "UPSTREAM", f"The identity provider's keys cannot be read: {error}.") from None
        return _Provider(document, tokens)

    async def _token(self, document: dict[str, Any], code: str, ticket: LoginTicket) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": ticket.redirect,
            "client_id": self.settings.client_id,
            "code_verifier": self._tickets.verifier(ticket),
        }
        secret = self.settings.client_secret
        auth = None if secret is None else BasicAuth(self.settings.client_id, secret)
        return await self._ask("POST", document["token_endpoint"], form=form, auth=auth)

    async def _ask(
        self, method: str, url: str, *, form: dict[str, str] | None = None, auth: BasicAuth | None = None
    ) -> dict[str, Any]:
        if self._session is None:
            self._session = ClientSession(timeout=ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.request(method, url, data=form, auth=auth, allow_redirects=False) as answer:
                content, status = await whole_body(answer, DOCUMENT_BYTES_MAX), answer.status
        except (HttpClientError, TimeoutError, OSError, ValueError) as error:
            raise ApiError(502, "UPSTREAM", f"The identity provider does not answer: {error}.") from None
        if status >= 500 or (status >= 300 and method == "GET"):
            raise ApiError(502, "UPSTREAM", f"The identity provider fails (HTTP {status}).")
        if status >= 300:
            raise ApiError(401, "LOGIN_FAILED", f"The identity provider refused the login (HTTP {status}).")
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise ApiError(502, "UPSTREAM", "The identity provider's answer is no JSON object.")
        return body


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname and is_loopback(parts.hostname):
        return
    raise ValueError(f"{url!r} is not an address with https.")


def _local(path: str) -> str:
    """The path if it is a page of this console, else `/`, so that a login cannot redirect a user to another site."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and "\\" not in path
    return path if is_local and path.isprintable() and len(path) <= PAGE_MAX else "/"


def _lifetime(answer: dict[str, Any]) -> float | None:
    seconds = answer.get("expires_in")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _claims(token: str) -> dict[str, Any]:
    """The claims of a token whose signature was checked."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims if isinstance(claims, dict) else {}
