"""The common part of requests that change the voters: authorization, and the node that can do it (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.quorum.raft_node import RaftNode

__all__ = ["quorum_to_change"]


def quorum_to_change(context: RequestContext, broker: Broker) -> RaftNode | None:
    """The quorum to change; None if a broker has to forward the request to the leader. Raises KafkaError."""
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum = broker.quorum
    if not context.listener.is_controller and (quorum is None or not quorum.is_leading):
        return None
    assert quorum is not None, "only a controller has this listener"
    return quorum
