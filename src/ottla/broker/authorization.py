"""Access control: Kafka's operations and resources, and the authorizer of every request.

A handler calls `context.allows(...)` before it accesses a resource, for every authorizer. Without a configured
authorizer that is `AllowAll`; the others are in `ottla.broker.access`.

Shortcuts ask `context.allows_cached(...)`, which asks the authorizer once per connection, operation and resource. This
puts two duties on an authorizer. Its decision may depend on the principal, the client's address, the listener, the
operation and the resource, and on nothing else of a request. And it changes `decisions_version` with every change of
its rules: that drops the cached decisions of all connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.model.access import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.context import PrincipalBuilder, RequestContext
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.deferred import Deferred

__all__ = [
    "CLUSTER_NAME",
    "AllowAll",
    "Authorizer",
    "DecisionCache",
    "Operation",
    "ResourceType",
    "configured_authorizer",
    "configured_principal_builder",
]

# Decisions that are cached for a connection; with more resources than this the cache is emptied.
CACHED_DECISIONS_MAX = 1_000
DEFAULT_PRINCIPAL_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


class Authorizer(Protocol):
    @property
    def decisions_version(self) -> int:
        """A number that changes with every change of the rules."""

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if the principal of the request may perform the operation on the named resource."""

    def authorize_softly(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """`authorize` for a decision whose denial refuses no request, so that the audit does not record it."""

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

    def authorize_softly(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return self.authorize(context, operation, resource_type, resource_name)

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


def configured_principal_builder(config: BrokerConfig) -> PrincipalBuilder | None:
    """The builder of `principal.builder.class` and of single listeners. Most nodes have none, and do not import it."""
    key = "principal.builder.class"
    names = {"": config.principal_builder_class}
    names |= {listener: keys[key] for listener, keys in config.listener_overrides.items() if key in keys}
    if set(names.values()) == {DEFAULT_PRINCIPAL_BUILDER}:
        return None
    from ottla.broker.access.principals import load_principal_builders

    return load_principal_builders(names, default=DEFAULT_PRINCIPAL_BUILDER)


def configured_authorizer(config: BrokerConfig, metadata: Publishers, caught_up: Deferred[None]) -> Authorizer | None:
    """The authorizer of `authorizer.class.name`. Most nodes have none, and do not import it.

    `caught_up` resolves when the metadata are as new as the active controller's.
    """
    if not config.authorizer_class_name:
        return None
    from ottla.broker.access.loading import load_authorizer

    return load_authorizer(config, metadata, caught_up)
