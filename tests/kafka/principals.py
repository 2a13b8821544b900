"""What the principal builders of Kafka's tests do, for `principal.builder.class` of our node."""

from __future__ import annotations

from ottla.broker.context import ConnectionContext, Principal

__all__ = ["by_listener"]


def by_listener(connection: ConnectionContext, principal: Principal) -> Principal:
    """Connections to the listener of clients belong to the client, all others to the broker."""
    del principal
    return Principal("User", "client" if connection.listener.name == "CLIENT" else "broker")
