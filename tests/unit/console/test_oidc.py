"""Logins by an identity provider: invented codes reach the provider a few times a minute only."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ottla.console.answers import ApiError
from ottla.console.failed_logins import FAILURES_OF_USER_MAX
from ottla.console.oidc import OidcLogin, OidcSettings, _Provider
from ottla.registry.node.tokens import BearerRules, BearerTokens

ISSUER = "https://login.example.com"


class StrictProvider(OidcLogin):
    """Its provider accepts no code."""

    def __init__(self) -> None:
        super().__init__(OidcSettings(issuer=ISSUER, client_id="console"))
        self.posts = 0

    async def _discover(self) -> Any:
        document = {name: f"{ISSUER}/{name}" for name in ("authorization_endpoint", "token_endpoint")}
        return _Provider(document, BearerTokens("file:/none", BearerRules(ISSUER, ("console",))))

    async def _ask(self, method: str, url: str, **_: Any) -> dict[str, Any]:
        self.posts += 1
        raise ApiError(401, "LOGIN_FAILED", "The identity provider refused the login (HTTP 400).")


async def status_of(login: OidcLogin, ticket: str | None, state: str, address: str) -> int:
    with pytest.raises(ApiError) as caught:
        await login.finish(ticket, state=state, code="invented", address=address)
    return caught.value.status


def test_invented_codes_of_an_address_are_bounded() -> None:
    async def scenario() -> None:
        login = StrictProvider()
        url, ticket = await login.begin(redirect="https://console/done", to="/")
        state = parse_qs(urlsplit(url).query)["state"][0]
        statuses = [await status_of(login, ticket, state, "10.0.0.1") for _ in range(FAILURES_OF_USER_MAX + 3)]
        assert statuses == [401] * FAILURES_OF_USER_MAX + [429] * 3
        assert login.posts == FAILURES_OF_USER_MAX
        # Other addresses do not wait.
        assert await status_of(login, ticket, state, "10.0.0.2") == 401

    asyncio.run(scenario())


def test_a_page_of_another_site_cannot_keep_an_address_waiting() -> None:
    """Such a page makes a browser call the console, but without the ticket of a login."""

    async def scenario() -> None:
        login = StrictProvider()
        for _ in range(FAILURES_OF_USER_MAX + 3):
            assert await status_of(login, None, "planted", "10.0.0.1") == 401
        assert login.posts == 0

    asyncio.run(scenario())
