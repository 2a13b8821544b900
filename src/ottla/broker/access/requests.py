"""Code that the three APIs of ACLs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, AllowAll, Operation, ResourceType
from ottla.broker.context import CloseConnection
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext

__all__ = ["check_kinds", "ensure_allowed"]


def ensure_allowed(operation: Operation, context: RequestContext) -> None:
    """Raises KafkaError if the node has no authorizer, or the principal lacks the operation on the cluster's ACLs."""
    if type(context.authorizer) is AllowAll:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No authorizer is configured, so there are no access rules.")
    if not context.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def check_kinds(*kinds: int) -> None:
    """Closes the connection for kind 0 (unknown to the client itself), like Apache Kafka."""
    if not all(kinds):
        raise CloseConnection("a request about access rules of an unknown kind")
