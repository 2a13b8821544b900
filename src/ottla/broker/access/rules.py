"""The ACLs of a cluster, indexed by the resources that they affect.

A resource is affected by three kinds of ACLs: those with its literal name, those with the wildcard `*`, and those with
a prefix of its name. Prefixes are looked up by their lengths: a cluster has many prefixed ACLs, but few lengths of
them.

The rules of a decision are Kafka's: a DENY wins over every ALLOW. An ALLOW of READ, WRITE, DELETE or ALTER implies
DESCRIBE, and an ALLOW of ALTER_CONFIGS implies DESCRIBE_CONFIGS. A DENY implies nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from ottla.metadata.image import AclEntry
from ottla.model.access import (
    WILDCARD,
    Operation,
    PatternType,
    Permission,
)
from ottla.model.addresses import address_bytes

__all__ = ["AclIndex", "Verdict"]

_IMPLYING: dict[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}

Host = bytes | str


class Verdict(NamedTuple):
    """The result of the ACLs for an action: the deciding ACL, and whether any ACL affects the resource."""

    rule: AclEntry | None
    has_rules: bool

    @property
    def is_allowed(self) -> bool:
        return self.rule is not None and self.rule.permission_type == Permission.ALLOW


class AclIndex:
    __slots__ = ("_literal", "_prefix_lengths", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[tuple[int, str], dict[AclEntry, Host]] = {}
        self._prefixed: dict[tuple[int, str], dict[AclEntry, Host]] = {}
        # The number of prefixes of each length, by resource type.
        self._prefix_lengths: dict[int, Counter[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._literal.values())) + sum(map(len, self._prefixed.values()))

    def add(self, entry: AclEntry) -> None:
        resource = (entry.resource_type, entry.resource_name)
        table = self._table(entry)
        entries = table.get(resource)
        if entries is None:
            entries = table[resource] = {}
            if table is self._prefixed:
                lengths = self._prefix_lengths.setdefault(entry.resource_type, Counter())
                lengths[len(entry.resource_name)] += 1
        entries[entry] = _host(entry.host)

    def remove(self, entry: AclEntry) -> None:
        resource = (entry.resource_type, entry.resource_name)
        table = self._table(entry)
        entries = table.get(resource)
        if entries is None or entries.pop(entry, None) is None or entries:
            return
        del table[resource]
        if table is self._prefixed:
            lengths, length = self._prefix_lengths[entry.resource_type], len(entry.resource_name)
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]

    def decide(
        self, principals: Collection[str], host: str, operation: int, resource_type: int, resource_name: str
    ) -> Verdict:
        """`principals` are the client's own principal, those of its groups, and the wildcard."""
        hosts = (WILDCARD, _host(host))
        implying = _IMPLYING.get(operation, (operation,))
        allowing: AclEntry | None = None
        has_rules = False
        for entries in self._affecting(resource_type, resource_name):
            has_rules = True
            for entry, entry_host in entries.items():
                if entry.principal not in principals or entry_host not in hosts:
                    continue
                if entry.permission_type == Permission.DENY:
                    if entry.operation in (operation, Operation.ALL):
                        return Verdict(entry, has_rules=True)
                elif entry.operation == Operation.ALL or entry.operation in implying:
                    allowing = entry
        return Verdict(allowing, has_rules)

    def allows_any(self, principals: Collection[str], host: str, operation: int, resource_type: int) -> bool:
        """True if there is a name for which the operation is allowed (KIP-679).

        Operations imply no other operations here. Only names with an ACL are considered.
        """
        allowed: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        denied: dict[int, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
        hosts = (WILDCARD, _host(host))
        for table in (self._literal, self._prefixed):
            for (kind, name), entries in table.items():
                if kind != resource_type:
                    continue
                for entry, entry_host in entries.items():
                    if (
                        entry.principal in principals
                        and entry_host in hosts
                        and entry.operation in (operation, Operation.ALL)
                    ):
                        names = denied if entry.permission_type == Permission.DENY else allowed
                        names[entry.pattern_type].add(name)
        if WILDCARD in denied[PatternType.LITERAL]:
            return False
        if WILDCARD in allowed[PatternType.LITERAL]:
            return True
        prefixes = denied[PatternType.PREFIXED]
        return any(not _has_prefix(name, prefixes) for name in allowed[PatternType.PREFIXED]) or any(
            name not in denied[PatternType.LITERAL] and not _has_prefix(name, prefixes)
            for name in allowed[PatternType.LITERAL]
        )

    def _table(self, entry: AclEntry) -> dict[tuple[int, str], dict[AclEntry, Host]]:
        return self._prefixed if entry.pattern_type == PatternType.PREFIXED else self._literal

    def _affecting(self, resource_type: int, name: str) -> Iterator[dict[AclEntry, Host]]:
        literal = self._literal
        if (entries := literal.get((resource_type, name))) is not None:
            yield entries
        if name != WILDCARD and (entries := literal.get((resource_type, WILDCARD))) is not None:
            yield entries
        lengths = self._prefix_lengths.get(resource_type)
        if lengths:
            for length in lengths:
                if length <= len(name) and (entries := self._prefixed.get((resource_type, name[:length]))) is not None:
                    yield entries

    def invariants(self) -> None:
        for kind, lengths in self._prefix_lengths.items():
            assert lengths == Counter(len(name) for resource_type, name in self._prefixed if resource_type == kind)
        assert all(self._literal.values())
        assert all(self._prefixed.values())


def _host(text: str) -> Host:
    """Addresses are compared as bytes, because an IPv6 address has several spellings."""
    return text if text == WILDCARD else address_bytes(text) or text


def _has_prefix(name: str, prefixes: set[str]) -> bool:
    return bool(prefixes) and any(name[:length] in prefixes for length in range(1, len(name) + 1))
