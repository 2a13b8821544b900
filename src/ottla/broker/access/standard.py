"""The authorizer of `authorizer.class.name=...StandardAuthorizer`: super users, then the ACLs in the metadata.

A publisher: it follows the metadata, so that a change of ACLs holds on every node soon after its commit.

The listener of a controller opens before the node has caught up with the metadata, because the other controllers need
it to elect a leader. Until then the node knows only the ACLs in its own log, which may lack the newest ones, or all of
them on a new disk. Like Apache Kafka's authorizer, this one decides for super users alone in that time; other requests
are refused with an error that clients retry. One exception: the requests with which controllers elect a leader and
follow its log pass if the known ACLs allow them. Otherwise controllers that are no super users could not elect a leader
after all of them have stopped.
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
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.context import Principal, RequestContext
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig

__all__ = ["StandardAuthorizer"]

# Served before the node has caught up, because it catches up by them: Fetch, Vote, BeginQuorumEpoch, EndQuorumEpoch and
# FetchSnapshot. A controller is active only later, so other requests between nodes lose nothing.
_OF_QUORUM = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
    }
)


class StandardAuthorizer:
    __slots__ = ("_acls", "_allows_without_rules", "_index", "_is_waiting", "_super_users", "decisions_version")

    def __init__(self, config: BrokerConfig) -> None:
        self._super_users = frozenset(_principals(config.super_users))
        self._allows_without_rules = config.allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self._acls = AclsImage()
        # True while the ACLs may be older than those of the cluster.
        self._is_waiting = False
        self.decisions_version = 0

    # -- following the metadata ------------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        self._index = AclIndex()
        for entry in image.acls.by_id.values():
            self._index.add(entry)
        self._acls = image.acls
        self.decisions_version += 1

    def wait(self) -> None:
        """The node has not caught up with the metadata."""
        self._is_waiting = True

    def caught_up(self, image: MetadataImage) -> None:
        """The image has every ACL that was committed when the node reached the active controller."""
        self._is_waiting = False
        # The log may have been cut behind the last published image, which had ACLs that were never committed.
        self.start(image)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if image.acls is self._acls:
            return
        if delta.image.acls is not self._acls:
            # A snapshot has replaced the image, and the changes do not list the ACLs that the snapshot lacks.
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
        if self._is_super_user(principals):
            return True
        verdict = self._index.decide(principals, connection.client_host, operation, resource_type, resource_name)
        if verdict.rule is None:
            is_allowed = self._allows_without_rules and not verdict.has_rules
        else:
            is_allowed = verdict.is_allowed
        if self._is_waiting:
            _ensure_of_quorum(context, is_allowed=is_allowed)
        return is_allowed

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
        if self._is_super_user(principals):
            return True, "super user"
        verdict = self._index.decide(principals, connection.client_host, operation, resource_type, resource_name)
        if verdict.rule is not None:
            is_allowed, reason = verdict.is_allowed, _shown(verdict.rule)
        elif verdict.has_rules or not self._allows_without_rules:
            is_allowed, reason = False, "no ACL allows it"
        else:
            is_allowed, reason = True, "allow.everyone.if.no.acl.found"
        if self._is_waiting:
            _ensure_of_quorum(context, is_allowed=is_allowed)
        return is_allowed, reason

    def _is_super_user(self, principals: tuple[str, ...]) -> bool:
        """`principals` are those of `_principals_of`. The wildcard among them counts for ACLs alone."""
        return principals[0] in self._super_users or not self._super_users.isdisjoint(principals[2:])

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        connection = context.connection
        # A name without ACLs covers super users and clusters that allow access without ACLs.
        return self.authorize(context, operation, resource_type, "hardcode") or self._index.allows_any(
            _principals_of(connection.principal), connection.client_host, operation, resource_type
        )

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS.get(resource_type, ())
            if self.authorize(context, operation, resource_type, resource_name)
        )


def _ensure_of_quorum(context: RequestContext, *, is_allowed: bool) -> None:
    """Raises KafkaError for everything that must wait until the node has caught up.

    This includes nodes without the right: the ACL with the right may still be missing, and a controller of Apache Kafka
    ends when its request is refused.
    """
    if not is_allowed or context.api_key not in _OF_QUORUM:
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER,
            "This controller does not know the access rules yet, because it has not caught up with the metadata.",
        )


def _principals_of(principal: Principal) -> tuple[str, ...]:
    """The principals whose ACLs apply to a client."""
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
