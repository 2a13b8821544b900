"""Filters of ACLs, as DescribeAcls and DeleteAcls use them (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import NamedTuple

from ottla.metadata.image import AclEntry
from ottla.model.access import WILDCARD, Operation, PatternType, Permission, ResourceType

__all__ = ["AclFilter"]


class AclFilter(NamedTuple):
    """None and ANY match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def is_unknown(self) -> bool:
        """True if a field has a value of a newer client, which this node cannot interpret."""
        return (
            not ResourceType.ANY <= self.resource_type <= max(ResourceType)
            or not PatternType.ANY <= self.pattern_type <= max(PatternType)
            or not Operation.ANY <= self.operation <= max(Operation)
            or not Permission.ANY <= self.permission_type <= max(Permission)
        )

    @property
    def exact(self) -> AclEntry | None:
        """The only ACL that matches, if the filter leaves nothing open."""
        if (
            self.resource_name is None
            or self.principal is None
            or self.host is None
            or self.resource_type == ResourceType.ANY
            or self.pattern_type in (PatternType.ANY, PatternType.MATCH)
            or self.operation == Operation.ANY
            or self.permission_type == Permission.ANY
        ):
            return None
        return AclEntry(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission_type,
        )

    def matches(self, entry: AclEntry) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission_type in (Permission.ANY, entry.permission_type)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self._matches_name(entry)
        )

    def _matches_name(self, entry: AclEntry) -> bool:
        name, pattern = self.resource_name, self.pattern_type
        if pattern not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
            return False
        if name is None or name == entry.resource_name:
            return True
        if pattern != PatternType.MATCH:
            return False
        # MATCH: every ACL that affects a resource of this name.
        if entry.pattern_type == PatternType.PREFIXED:
            return name.startswith(entry.resource_name)
        return entry.resource_name == WILDCARD
