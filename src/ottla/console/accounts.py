"""Accounts: who acts on the cluster, and over which connection."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin import AdminClient
from ottla.client.settings import ClientSettings
from ottla.console.roles import Role
from ottla.console.view import ClusterView

__all__ = ["Account"]


@dataclass(slots=True, kw_only=True)
class Account:
    """A user with a connection. Sessions of the same user share it."""

    user: str
    settings: ClientSettings
    admin: AdminClient
    view: ClusterView
    role: Role

    @classmethod
    def open(cls, user: str, settings: ClientSettings, role: Role) -> Account:
        admin = AdminClient(settings)
        return cls(user=user, settings=settings, admin=admin, view=ClusterView(admin), role=role)

    async def close(self) -> None:
        await self.view.close()
        await self.admin.close(timeout_ms=0)
