"""Access rules for subjects, read from a file, and the operations that requests need.

    SUPER User:root
    ALLOW User:ada SUBJECT_READ,SUBJECT_WRITE orders-*
    DENY  User:bob ALL orders-secret-value
    ALLOW User:* GLOBAL_COMPATIBILITY_READ

A star at the end of a name matches every name with that prefix. A matching DENY rule wins over ALLOW rules; without a
matching ALLOW rule, a request is denied. The name of a subject in another context includes the context: `:.staging:*`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.registry.core.errors import RegistryError

__all__ = ["ANONYMOUS", "AccessRules", "Operation", "access_denied"]

ANONYMOUS = "User:ANONYMOUS"
_ALL_USERS = "User:*"
_ALL = "ALL"


class Operation(enum.StrEnum):
    """The names are those of Confluent's ACLs. A KEY operation applies to a named key of encrypted fields."""

    SUBJECT_READ = "SUBJECT_READ"
    SUBJECT_WRITE = "SUBJECT_WRITE"
    SUBJECT_DELETE = "SUBJECT_DELETE"
    SUBJECT_COMPATIBILITY_READ = "SUBJECT_COMPATIBILITY_READ"
    SUBJECT_COMPATIBILITY_WRITE = "SUBJECT_COMPATIBILITY_WRITE"
    GLOBAL_COMPATIBILITY_READ = "GLOBAL_COMPATIBILITY_READ"
    GLOBAL_COMPATIBILITY_WRITE = "GLOBAL_COMPATIBILITY_WRITE"
    KEY_READ = "KEY_READ"
    KEY_WRITE = "KEY_WRITE"
    KEY_DELETE = "KEY_DELETE"

    @property
    def is_global(self) -> bool:
        return self.value.startswith("GLOBAL")


_DESCRIPTIONS = {
    Operation.SUBJECT_READ: "Read on Subject: ",
    Operation.SUBJECT_WRITE: "Write on Subject: ",
    Operation.SUBJECT_DELETE: "Delete on Subject: ",
    Operation.SUBJECT_COMPATIBILITY_READ: "ReadCompatibility on Subject: ",
    Operation.SUBJECT_COMPATIBILITY_WRITE: "WriteCompatibility on Subject: ",
    Operation.GLOBAL_COMPATIBILITY_READ: "ReadCompatibility on this server",
    Operation.GLOBAL_COMPATIBILITY_WRITE: "WriteCompatibility on this server",
    Operation.KEY_READ: "Read on Key: ",
    Operation.KEY_WRITE: "Write on Key: ",
    Operation.KEY_DELETE: "Delete on Key: ",
}


def access_denied(operation: Operation, name: str) -> RegistryError:
    return RegistryError(40301, f"User is denied operation {_DESCRIPTIONS[operation]}{name}")


@dataclass(frozen=True, slots=True)
class _Rule:
    is_allowed: bool
    principal: str
    operations: frozenset[Operation]
    name: str
    is_prefix: bool

    def covers(self, principal: str, operation: Operation, name: str) -> bool:
        if self.principal not in (principal, _ALL_USERS) or operation not in self.operations:
            return False
        if operation.is_global:
            # ALL on named subjects does not include the operations on the whole server.
            return not self.name
        return name.startswith(self.name) if self.is_prefix else name == self.name


class AccessRules:
    """Immutable; `parse` raises ValueError with the line that cannot be read."""

    def __init__(self, super_users: Iterable[str] = (), rules: Iterable[_Rule] = ()) -> None:
        self.super_users = frozenset(super_users)
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, text: str) -> AccessRules:
        super_users, rules = [], []
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                if words[0].upper() == "SUPER":
                    super_users += [_principal(word) for word in words[1:]]
                else:
                    rules.append(_parsed(words))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        return cls(super_users, rules)

    def allows(self, principal: str, operation: Operation, name: str = "") -> bool:
        if principal in self.super_users:
            return True
        verdicts = [rule.is_allowed for rule in self._rules if rule.covers(principal, operation, name)]
        return bool(verdicts) and all(verdicts)


def _parsed(words: list[str]) -> _Rule:
    permission = words[0].upper()
    if permission not in ("ALLOW", "DENY"):
        raise ValueError(f"{words[0]} is not ALLOW, DENY or SUPER")
    if len(words) not in (3, 4):
        raise ValueError("a rule has a principal, operations and a subject")
    operations = _operations(words[2])
    name = words[3] if len(words) == 4 else ""
    if not name and not all(operation.is_global for operation in operations):
        raise ValueError("a subject is missing; * stands for all")
    return _Rule(
        is_allowed=permission == "ALLOW",
        principal=_principal(words[1]),
        operations=operations,
        name=name.removesuffix("*"),
        is_prefix=name.endswith("*"),
    )


def _operations(text: str) -> frozenset[Operation]:
    if text.upper() == _ALL:
        return frozenset(Operation)
    try:
        return frozenset(Operation(word.upper()) for word in text.split(","))
    except ValueError:
        raise ValueError(f"{text} has an operation that is not one of ALL, {', '.join(Operation)}") from None


def _principal(word: str) -> str:
    if not word.startswith("User:") or word == "User:":
        raise ValueError(f"{word} is not a principal like User:ada")
    return word
