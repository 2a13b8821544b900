"""The rights of users in the console. The cluster's own rights decide in addition.

A file of roles is JSON:

    {"roles": [{"name": "support", "principals": ["User:alice", "Group:helpdesk"], "messages": true, "write": false,
                "mask": [{"topics": "orders.*", "path": "customer.card"}]}]}

The first role that names a principal of the user counts; `User:*` is every user. A user without a role reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.console.masking import MaskRule, parse_mask_rules

__all__ = ["CLUSTER_OPERATOR", "OPERATOR", "READER", "Role", "Roles", "parse_roles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    name: str
    # Pages and lists.
    can_read: bool = True
    # Keys, values and headers of records.
    can_read_messages: bool = True
    can_write: bool = False
    # Connectors and schemas, which the console changes with its own credentials.
    can_change_services: bool = True
    # Rules that hide content of records.
    masks: tuple[MaskRule, ...] = ()


OPERATOR = Role(name="operator", can_write=True)
CLUSTER_OPERATOR = Role(name="operator", can_write=True, can_change_services=False)
READER = Role(name="reader")


class Roles:
    """Roles in the order of the file, with their principals."""

    def __init__(self, entries: Iterable[tuple[Role, frozenset[str]]] = ()) -> None:
        self._entries = list(entries)

    def of(self, principals: Iterable[str]) -> Role | None:
        """The role of a user with these principals; None if no role names any of them."""
        own = set(principals)
        for role, members in self._entries:
            if own & members or "User:*" in members:
                return role
        return None


def parse_roles(text: str) -> Roles:
    """Raises ValueError with a sentence."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"The file of roles is no JSON: {error}.") from None
    if not isinstance(content, dict) or not isinstance(content.get("roles"), list):
        raise ValueError('The file of roles must look like {"roles": [...]}.')
    return Roles(_entry(entry) for entry in content["roles"])


_FIELDS = {"name", "principals", "read", "messages", "write", "mask"}


def _entry(entry: Any) -> tuple[Role, frozenset[str]]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ValueError("A role needs a 'name'.")
    name = entry["name"]
    if unknown := set(entry) - _FIELDS:
        raise ValueError(
            f"Role {name} has the unknown field {min(unknown)!r}; fields are {', '.join(sorted(_FIELDS))}."
        )
    principals = entry.get("principals", [])
    if not isinstance(principals, list) or any(
        not isinstance(principal, str) or ":" not in principal for principal in principals
    ):
        raise ValueError(f"'principals' of role {name} must be a list like [\"User:alice\"].")
    for field in ("read", "messages", "write"):
        if not isinstance(entry.get(field, True), bool):
            raise ValueError(f"{field!r} of role {name} must be true or false.")
    role = Role(
        name=name,
        can_read=entry.get("read", True),
        can_read_messages=entry.get("messages", True),
        can_write=entry.get("write", False),
        masks=parse_mask_rules(entry.get("mask", [])),
    )
    return role, frozenset(principals)
