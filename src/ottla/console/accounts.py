"""Accounts: users who act on the cluster, and their connections."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin import AdminClient
from ottla.client.settings import ClientSettings
from ottla.console.live import Live
from ottla.console.node_metrics import NodeMetrics
from ottla.console.roles import Role
from ottla.console.view import ClusterView

__all__ = ["Account"]


@dataclass(slots=True, kw_only=True)
class Account:
    """A user with a connection to the cluster. All sessions of the user share the account."""

    user: str
    first_settings: ClientSettings
    admin: AdminClient
    view: ClusterView
    role: Role
    live: Live
    # True if the connection authenticates as the user, so that the cluster's rights apply to the user, and its audit
    # names the user.
    acts_as_user: bool

    @classmethod
    def open(
        cls, user: str, settings: ClientSettings, role: Role, metrics: NodeMetrics, *, is_own: bool = True
    ) -> Account:
        admin = AdminClient(settings)
        view = ClusterView(admin)
        live = Live(admin, view, metrics)
        return cls(
            user=user, first_settings=settings, admin=admin, view=view, role=role, live=live, acts_as_user=is_own
        )

    @property
    def settings(self) -> ClientSettings:
        return self.view.settings

    async def close(self) -> None:
        await self.live.close()
        await self.view.close()
        await self.admin.close(timeout_ms=0)
