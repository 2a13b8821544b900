"""RemoveRaftVoter (key 81), version 0: a controller loses its vote (KIP-853).

Only the leader of the quorum can: a broker sends the request on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["handle"]


def handle(
    request: RemoveRaftVoterRequest, context: RequestContext, broker: Broker
) -> RemoveRaftVoterResponse | Deferred[RemoveRaftVoterResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return RemoveRaftVoterResponse(error_code=code, error_message=code.message)
    if not context.listener.is_controller and (broker.quorum is None or not broker.quorum.is_leading):
        return broker.controller.remove_raft_voter(request, context.for_controller())
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.reconfiguration.remove_voter(request)
