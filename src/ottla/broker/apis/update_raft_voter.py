"""UpdateRaftVoter (key 82), version 0: a voter reports its endpoints and supported versions (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: UpdateRaftVoterRequest, context: RequestContext, broker: Broker
) -> UpdateRaftVoterResponse | Deferred[UpdateRaftVoterResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return UpdateRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.reconfiguration.update_voter(request)


API = Api(
    request=UpdateRaftVoterRequest,
    response=UpdateRaftVoterResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
