"""Access control: Kafka's operations and resources, and the authorizer of every request.

A handler calls `context.allows(...)` before it accesses a resource, for every authorizer. The only authorizer so far is
`AllowAll`.

Shortcuts ask `context.allows_cached(...)`, which asks the authorizer once per connection, operation and resource. This
puts two duties on an authorizer. Its decision may depend on the principal, the client's address, the listener, the
operation and the resource, and on nothing else of a request. And it changes `decisions_version` with every change of
its rules: that drops the cached decisions of all connections.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

__all__ = ["CLUSTER_NAME", "AllowAll", "Authorizer", "DecisionCache", "Operation", "ResourceType"]

# The name of the only resource of type CLUSTER.
CLUSTER_NAME = "kafka-cluster"

# Decisions that are cached for a connection; with more resources than this the cache is emptied.
CACHED_DECISIONS_MAX = 1_000


class Operation(IntEnum):
    """An operation on a resource. The numbers are those of ACL requests and of `authorized_operations` bit fields."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Authorizer(Protocol):
    # Another number after every change of the rules.
    decisions_version: int

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if the principal of the request may perform the operation on the named resource."""

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """True if the principal may perform the operation on at least one resource of the type."""

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        """The bit field (bit n for operation n) that Metadata and DescribeCluster return on request."""


class AllowAll:
    """Allows every operation, as a Kafka broker without `authorizer.class.name` does."""

    __slots__ = ()

    decisions_version = 0

    def authorize(
        self,
        context: RequestContext,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
        resource_name: str,  # noqa: ARG002
    ) -> bool:
        return True

    def authorize_by_resource_type(
        self,
        context: RequestContext,  # noqa: ARG002
        operation: Operation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
    ) -> bool:
        return True

    def authorized_operations(
        self,
        context: RequestContext,  # noqa: ARG002
        resource_type: ResourceType,
        resource_name: str,  # noqa: ARG002
    ) -> int:
        return sum(1 << operation for operation in SUPPORTED_OPERATIONS.get(resource_type, ()))


class DecisionCache:
    """The decisions about one connection, as long as the authorizer's rules do not change."""

    __slots__ = ("_decisions", "_version")

    def __init__(self) -> None:
        self._version: int | None = None
        self._decisions: dict[tuple[Operation, ResourceType, str], bool] = {}

    def allows(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        authorizer, decisions = context.connection.authorizer, self._decisions
        if self._version != authorizer.decisions_version:
            self._version = authorizer.decisions_version
            decisions.clear()
        question = (operation, resource_type, resource_name)
        decision = decisions.get(question)
        if decision is None:
            if len(decisions) >= CACHED_DECISIONS_MAX:
                decisions.clear()
            decision = decisions[question] = authorizer.authorize(context, operation, resource_type, resource_name)
        return decision


# The operations that exist for each resource type. In a bit field they stand for "all operations".
SUPPORTED_OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
