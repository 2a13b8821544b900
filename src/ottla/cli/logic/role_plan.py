"""Roles: named sets of rules, bound to principals, and the ACLs that they amount to.

A role is stored in the topic `__roles` as JSON under its name. Brokers use plain ACLs: one for each rule of a role and
each principal that is bound to it. A change is planned by comparing the ACLs before and after it. An ACL that another
role gives to the same principal stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.acls import Acl, AclSelection
from ottla.model.access import Operation, PatternType, Permission, ResourceType

__all__ = ["Plan", "Role", "check_principals", "plan", "read_role", "selection", "written"]

# The placeholder of the principal in the rules of a role.
ANYBODY = ""


class Role(NamedTuple):
    name: str
    # ACLs without a principal.
    rules: tuple[Acl, ...] = ()
    members: tuple[str, ...] = ()

    def acls(self) -> set[Acl]:
        return {rule._replace(principal=member) for rule in self.rules for member in self.members}


class Plan(NamedTuple):
    """The ACLs to create and to delete."""

    created: list[Acl]
    deleted: list[Acl]


def plan(before: Mapping[str, Role], after: Mapping[str, Role], present: Iterable[Acl]) -> Plan:
    """The plan of a change, from the roles before and after it and the ACLs of the cluster."""
    wanted = _acls(after)
    obsolete = _acls(before) - wanted
    known = set(present)
    return Plan(created=sorted(wanted - known), deleted=sorted(obsolete & known))


def _acls(roles: Mapping[str, Role]) -> set[Acl]:
    return set().union(*(role.acls() for role in roles.values())) if roles else set()


def check_principals(principals: Iterable[str]) -> tuple[str, ...]:
    """Raises ValueError for a principal without a type or a name."""
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not kind or not colon or not name:
            raise ValueError(f"{principal!r} is no principal: write User:alice, or another type before the colon.")
    return tuple(dict.fromkeys(principals))


def selection(acl: Acl) -> AclSelection:
    """The filter for exactly this ACL."""
    return AclSelection(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def written(role: Role) -> bytes:
    rules = [
        {
            "resourceType": rule.resource_type.name,
            "name": rule.resource_name,
            "patternType": rule.pattern_type.name,
            "host": rule.host,
            "operation": rule.operation.name,
            "permissionType": rule.permission.name,
        }
        for rule in role.rules
    ]
    return json.dumps({"version": 1, "rules": rules, "members": list(role.members)}).encode()


def read_role(name: str, text: bytes) -> Role:
    """Raises ValueError for text that is no role."""
    try:
        document = json.loads(text)
        rules = tuple(
            Acl(
                ResourceType[rule["resourceType"]],
                rule["name"],
                ANYBODY,
                Operation[rule["operation"]],
                Permission[rule["permissionType"]],
                rule["host"],
                PatternType[rule["patternType"]],
            )
            for rule in document["rules"]
        )
        return Role(name, rules, tuple(document["members"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"The role {name!r} cannot be read: {error!r}.") from None
