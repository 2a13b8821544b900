"""AddRaftVoter (key 80), versions 0 and 1: a controller gets a vote (KIP-853).

- 1: the answer may come before the commit (KIP-1186)

Only the leader of the quorum can: a broker sends the request on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["handle"]


def handle(
    request: AddRaftVoterRequest, context: RequestContext, broker: Broker
) -> AddRaftVoterResponse | Deferred[AddRaftVoterResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AddRaftVoterResponse(error_code=code, error_message=code.message)
    if not context.listener.is_controller and (broker.quorum is None or not broker.quorum.is_leading):
        return broker.controller.add_raft_voter(request, context.for_controller())
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.reconfiguration.add_voter(request)
