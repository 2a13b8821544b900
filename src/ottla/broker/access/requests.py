"""What the three APIs of ACLs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, AllowAll, Operation, ResourceType
from ottla.broker.context import CloseConnection
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

__all__ = ["check_kinds", "ensure_allowed"]


def ensure_allowed(operation: Operation, context: RequestContext) -> None:
    """Raises KafkaError if the node has no authorizer, or the principal may not do this to the cluster's ACLs."""
    if type(context.authorizer) is AllowAll:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No authorizer is configured, so there are no access rules.")
    if not context.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def check_kinds(*kinds: int) -> None:
    """0 stands for a kind that the client itself does not know. Apache Kafka closes the connection, too."""
    if not all(kinds):
        raise CloseConnection("a request about access rules of an unknown kind")
