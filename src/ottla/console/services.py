"""What all requests share."""

from __future__ import annotations

from ottla.console.accounts import Account
from ottla.console.roles import OPERATOR
from ottla.console.sessions import Sessions
from ottla.console.settings import ConsoleSettings

__all__ = ["Services"]

ANONYMOUS = "User:ANONYMOUS"


class Services:
    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.sessions = Sessions(f"ottla_console_{settings.port}", is_secure=False)
        # The console's own account: that of every user where the cluster expects no login.
        self.own = Account.open(ANONYMOUS, settings.client, OPERATOR)

    @property
    def needs_login(self) -> bool:
        return False

    async def close(self) -> None:
        for account in (self.own, *self.sessions.accounts()):
            await account.close()
