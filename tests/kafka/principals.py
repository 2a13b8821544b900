"""What the principal builders of Kafka's tests do, for `principal.builder.class` of our node."""

from __future__ import annotations

import re

from ottla.broker.context import ANONYMOUS, ConnectionContext, Principal

__all__ = [
    "admin_by_certificate",
    "anonymous",
    "by_certificate",
    "by_listener",
    "client",
    "group_by_listener",
    "groups",
    "plain_users",
    "server",
    "unauthorized",
]

CERTIFICATE_NAME = re.compile(r"O=A (.*?),CN=(.*)")


def by_listener(connection: ConnectionContext, principal: Principal) -> Principal:
    """Connections to the listener of clients belong to the client, all others to the broker."""
    del principal
    return Principal("User", "client" if connection.listener.name == "CLIENT" else "broker")


def client(connection: ConnectionContext, principal: Principal) -> Principal:
    del connection, principal
    return Principal("User", "client")


def server(connection: ConnectionContext, principal: Principal) -> Principal:
    del connection, principal
    return Principal("User", "server")


def anonymous(connection: ConnectionContext, principal: Principal) -> Principal:
    del connection, principal
    return ANONYMOUS


def unauthorized(connection: ConnectionContext, principal: Principal) -> Principal:
    del connection, principal
    return Principal("User", "Unauthorized")


def groups(connection: ConnectionContext, principal: Principal) -> Principal:
    """The principal of a login as a group; one user belongs to a group with another name."""
    del connection
    if principal == ANONYMOUS:
        return principal
    return Principal("Group", "testGroup" if principal.name == "scram-user" else principal.name)


def plain_users(connection: ConnectionContext, principal: Principal) -> Principal:
    del connection
    names = {"plain-admin": "admin", "plain-user": "user"}
    return Principal("User", names[principal.name]) if principal.name in names else ANONYMOUS


def group_by_listener(connection: ConnectionContext, principal: Principal) -> Principal:
    del principal
    return Principal("Group", "client" if connection.listener.name == "CLIENT" else "broker")


def by_certificate(connection: ConnectionContext, principal: Principal) -> Principal:
    """Servers and the super user share a name, clients have the name of their certificate."""
    del connection
    names = CERTIFICATE_NAME.fullmatch(principal.name)
    if names is None:
        return ANONYMOUS
    return Principal("User", "server") if names[1] == "server" or names[2] == "super-user" else principal


def admin_by_certificate(connection: ConnectionContext, principal: Principal) -> Principal:
    names = CERTIFICATE_NAME.fullmatch(principal.name)
    if connection.listener.security_protocol == "PLAINTEXT" or names is None:
        return ANONYMOUS
    if names[1] == "server" or names[2] == "super-user":
        return Principal("User", "server")
    return Principal("User", "client") if names[2] == "client" else ANONYMOUS
