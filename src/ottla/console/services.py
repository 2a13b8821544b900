"""Services that all requests share."""

from __future__ import annotations

from aiohttp import web

from ottla.console.accounts import Account
from ottla.console.balance_run import BalanceRun
from ottla.console.forwarding import Forwarding
from ottla.console.logins import Logins
from ottla.console.node_metrics import NodeMetrics
from ottla.console.oidc import OidcLogin
from ottla.console.roles import OPERATOR
from ottla.console.sessions import Sessions
from ottla.console.settings import ConsoleSettings
from ottla.console.turns import Turns
from ottla.console.upstream import Upstream

__all__ = ["Services"]

ANONYMOUS = "User:ANONYMOUS"
# Limits for all users together, and per user.
SCANS_MAX, SCANS_EACH_MAX = 64, 16
STREAMS_MAX, STREAMS_EACH_MAX = 1_000, 100


class Services:
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.forwarding = Forwarding(
            settings.trusted_proxies, public_url=settings.public_url, has_tls=settings.tls is not None
        )
        self.sessions = Sessions(f"ottla_console_{settings.port}", is_secure=self.forwarding.is_secure)
        self.metrics = NodeMetrics(settings.metrics_urls)
        self.streams = Turns("live pages", STREAMS_MAX, most_each=STREAMS_EACH_MAX)
        self.scans = Turns("searches and tails", SCANS_MAX, most_each=SCANS_EACH_MAX)
        self.balance = BalanceRun(settings.journal)
        registry, connect = settings.registry_url, settings.connect_url
        self.registry = None if registry is None else Upstream("Schema Registry", registry)
        self.connect = None if connect is None else Upstream("Connect worker", connect)
        self.oidc = None if settings.oidc is None else OidcLogin(settings.oidc)
        # The console's own account. All users share it if the console needs no login.
        self.own = Account.open(
            ANONYMOUS, settings.client, settings.roles.of([ANONYMOUS]) or OPERATOR, self.metrics, is_own=False
        )
        self.logins = Logins(settings.client, self.own, settings.roles, self.metrics, self.sessions)

    @property
    def needs_login(self) -> bool:
        return self.settings.needs_login

    def account_of(self, request: web.Request) -> Account | None:
        """The account of a request; None if the user has to log in first."""
        account = self.sessions.account_of(self.sessions.id_of(request))
        return account if account is not None or self.needs_login else self.own

    async def close(self) -> None:
        await self.balance.close()
        await self.logins.close()
        await self.own.close()
        await self.metrics.close()
        if self.oidc is not None:
            await self.oidc.close()
        for upstream in (self.registry, self.connect):
            if upstream is not None:
                await upstream.close()
