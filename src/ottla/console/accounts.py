"""Accounts: who acts on the cluster, and over which connection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.client.admin import AdminClient
from ottla.client.settings import ClientSettings
from ottla.console.live import Live
from ottla.console.node_metrics import NodeMetrics
from ottla.console.roles import Role
from ottla.console.view import ClusterView
from ottla.wire.peers import Endpoint

__all__ = ["Account"]


@dataclass(slots=True, kw_only=True)
class Account:
    """A user with a connection. Sessions of the same user share it."""

    user: str
    first_settings: ClientSettings
    admin: AdminClient
    view: ClusterView
    role: Role
    live: Live
    # True if the cluster knows the user, so that its own rights and its audit are about the user.
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
        """For a new client: it begins with the brokers that are known now. Those that were told first may be lost."""
        state = self.view.state.value
        if state is None:
            return self.first_settings
        known = [Endpoint(broker.host, broker.port) for broker in state.brokers.values()]
        servers = tuple(dict.fromkeys([*known, *self.first_settings.bootstrap_servers]))
        return replace(self.first_settings, bootstrap_servers=servers)

    async def close(self) -> None:
        await self.live.close()
        await self.view.close()
        await self.admin.close(timeout_ms=0)
