"""What all requests share."""

from __future__ import annotations

from aiohttp import web

from ottla.console.accounts import Account
from ottla.console.node_metrics import NodeMetrics
from ottla.console.roles import OPERATOR
from ottla.console.sessions import Sessions
from ottla.console.settings import ConsoleSettings
from ottla.console.turns import Turns
from ottla.console.upstream import Upstream

__all__ = ["Services"]

ANONYMOUS = "User:ANONYMOUS"
SCANS_MAX = 64
STREAMS_MAX = 1_000


class Services:
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.sessions = Sessions(f"ottla_console_{settings.port}", is_secure=False)
        # The console's own account: that of every user where the cluster expects no login.
        self.metrics = NodeMetrics(settings.metrics_urls)
        self.streams = Turns("live pages", STREAMS_MAX)
        self.scans = Turns("searches and tails", SCANS_MAX)
        registry, connect = settings.registry_url, settings.connect_url
        self.registry = None if registry is None else Upstream("Schema Registry", registry)
        self.connect = None if connect is None else Upstream("Connect worker", connect)
        self.own = Account.open(ANONYMOUS, settings.client, OPERATOR, self.metrics)

    @property
    def needs_login(self) -> bool:
        return False

    def is_logged_in(self, request: web.Request) -> bool:
        return self.sessions.account_of(self.sessions.id_of(request)) is not None

    async def close(self) -> None:
        for account in (self.own, *self.sessions.accounts()):
            await account.close()
        await self.metrics.close()
        for upstream in (self.registry, self.connect):
            if upstream is not None:
                await upstream.close()
