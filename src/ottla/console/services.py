"""What all requests share."""

from __future__ import annotations

from ottla.console.accounts import Account
from ottla.console.roles import OPERATOR
from ottla.console.sessions import Sessions
from ottla.console.settings import ConsoleSettings
from ottla.console.turns import Turns
from ottla.console.upstream import Upstream

__all__ = ["Services"]

ANONYMOUS = "User:ANONYMOUS"
SCANS_MAX = 64


class Services:
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.sessions = Sessions(f"ottla_console_{settings.port}", is_secure=False)
        # The console's own account: that of every user where the cluster expects no login.
        self.scans = Turns("searches and tails", SCANS_MAX)
        registry, connect = settings.registry_url, settings.connect_url
        self.registry = None if registry is None else Upstream("Schema Registry", registry)
        self.connect = None if connect is None else Upstream("Connect worker", connect)
        self.own = Account.open(ANONYMOUS, settings.client, OPERATOR)

    @property
    def needs_login(self) -> bool:
        return False

    async def close(self) -> None:
        for account in (self.own, *self.sessions.accounts()):
            await account.close()
        for upstream in (self.registry, self.connect):
            if upstream is not None:
                await upstream.close()
