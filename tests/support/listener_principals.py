"""The counterpart of `programs/ListenerPrincipals.java`, for `principal.builder.class` of our node."""

from __future__ import annotations

from ottla.broker.context import ConnectionContext, Principal

__all__ = ["by_listener"]


def by_listener(connection: ConnectionContext, principal: Principal) -> Principal:
    return Principal(principal.type, "client" if connection.listener.name.endswith("CLIENTS") else "node")
