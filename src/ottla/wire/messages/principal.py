# Written by tools/generate_messages.py from definitions/principal.txt: change the definition, not this file.
"""Principal.

A principal inside an Envelope request. A two-byte version precedes it.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message

__all__ = [
    "DefaultPrincipalData",
    "PrincipalWithGroupsData",
]


class DefaultPrincipalData(Message):
    """Data, version 0, flexible."""

    __slots__ = ("type", "name", "token_authenticated")

    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("type", "string", (0, 32767), None, None, "", False),
        ("name", "string", (0, 32767), None, None, "", False),
        ("token_authenticated", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated


class PrincipalWithGroupsData(Message):
    """Data, version 0, flexible.

    The same with the groups of the principal, between nodes of Ottla. Apache Kafka has no groups and skips the tag, whose
    number is far from its own ones.
    """

    __slots__ = ("type", "name", "token_authenticated", "groups")

    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("type", "string", (0, 32767), None, None, "", False),
        ("name", "string", (0, 32767), None, None, "", False),
        ("token_authenticated", "bool", (0, 32767), None, None, False, False),
        ("groups", "[string]", (0, 32767), None, 10000, (), False),
    )

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
        groups: list[str] = EMPTY,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
        self.groups = [] if groups is EMPTY else groups
