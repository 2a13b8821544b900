"""Vote (key 52), versions 0 to 2: a candidate asks for a vote or a pre-vote (KIP-595, KIP-996).

- 1: directory ids, endpoints of the leader (KIP-853); 2: pre-vote
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]


def handle(request: VoteRequest, context: RequestContext, broker: Broker) -> VoteResponse:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.elections.vote(request, api_version=context.api_version)


API = Api(
    request=VoteRequest,
    response=VoteResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
