"""The authorizer of `authorizer.class.name=...StandardAuthorizer`: super users, then the ACLs in the metadata.

A publisher: it follows the metadata, so that a change of ACLs holds on every node soon after its commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access.rules import AclIndex
from ottla.metadata.image import AclEntry, AclsImage
from ottla.model.access import (
    SUPPORTED_OPERATIONS,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from ottla.broker.context import Principal, RequestContext
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig

__all__ = ["StandardAuthorizer"]


class StandardAuthorizer:
    __slots__ = ("_acls", "_allows_without_rules", "_index", "_super_users", "decisions_version")

    def __init__(self, config: BrokerConfig) -> None:
        self._super_users = frozenset(_principals(config.super_users))
        self._allows_without_rules = config.allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self._acls = AclsImage()
        self.decisions_version = 0

    # -- following the metadata ------------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        self._index = AclIndex()
        for entry in image.acls.by_id.values():
            self._index.add(entry)
        self._acls = image.acls
        self.decisions_version += 1

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if image.acls is self._acls:
            return
        if delta.image.acls is not self._acls:
            # A snapshot has replaced the image: what it lacks is not among the changes.
            self.start(image)
            return
        before, after = self._acls.by_id, image.acls.by_id
        for identity in delta.acls_changed:
            removed = before.get(identity)
            # A log of another origin may have the same ACL under two ids.
            if removed is not None and removed not in image.acls.ids:
                self._index.remove(removed)
        for identity in delta.acls_changed:
            if (added := after.get(identity)) is not None:
                self._index.add(added)
        self._acls = image.acls
        self.decisions_version += 1

    # -- deciding --------------------------------------------------------------------------------------------------

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        connection = context.connection
        principals = _principals_of(connection.principal)
        if not self._super_users.isdisjoint(principals):
            return True
        verdict = self._index.decide(principals, connection.client_host, operation, resource_type, resource_name)
        if verdict.rule is None:
            return self._allows_without_rules and not verdict.has_rules
        return verdict.is_allowed

    def authorize_softly(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return self.authorize(context, operation, resource_type, resource_name)

    def explain(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> tuple[bool, str]:
        """The decision of `authorize`, and the rule that decided, for the audit."""
        connection = context.connection
        principals = _principals_of(connection.principal)
        if not self._super_users.isdisjoint(principals):
            return True, "super user"
        verdict = self._index.decide(principals, connection.client_host, operation, resource_type, resource_name)
        if verdict.rule is not None:
            return verdict.is_allowed, _shown(verdict.rule)
        if verdict.has_rules or not self._allows_without_rules:
            return False, "no ACL allows it"
        return True, "allow.everyone.if.no.acl.found"

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        connection = context.connection
        # A name that no ACL mentions stands for all others: super users, and clusters that are open without ACLs.
        return self.authorize(context, operation, resource_type, "hardcode") or self._index.allows_any(
            _principals_of(connection.principal), connection.client_host, operation, resource_type
        )

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS.get(resource_type, ())
            if self.authorize(context, operation, resource_type, resource_name)
        )


def _principals_of(principal: Principal) -> tuple[str, ...]:
    """The principals whose ACLs hold for a client."""
    own = (str(principal), WILDCARD_PRINCIPAL)
    return own + tuple(f"Group:{name}" for name in principal.groups) if principal.groups else own


def _shown(entry: AclEntry) -> str:
    """An ACL as text, for example "ALLOW READ on LITERAL TOPIC:orders for User:alice from *"."""
    return (
        f"{Permission(entry.permission_type).name} {Operation(entry.operation).name} on "
        f"{PatternType(entry.pattern_type).name} {ResourceType(entry.resource_type).name}:{entry.resource_name} "
        f"for {entry.principal} from {entry.host}"
    )


def _principals(text: str) -> list[str]:
    """The principals of `super.users`, which are separated by semicolons."""
    principals = [principal.strip() for principal in text.split(";") if principal.strip()]
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not kind or not colon or not name:
            raise ConfigError(
                f"super.users has {principal!r}, which does not have the form <type>:<name>, for example User:alice."
            )
    return principals
