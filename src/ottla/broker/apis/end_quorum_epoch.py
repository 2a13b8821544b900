"""EndQuorumEpoch (key 54), versions 0 and 1: a leader resigns and names preferred successors (KIP-595).

- 1: directory ids of the candidates (KIP-853)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]


def handle(request: EndQuorumEpochRequest, context: RequestContext, broker: Broker) -> EndQuorumEpochResponse:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return EndQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.elections.end_epoch(request, api_version=context.api_version)


API = Api(
    request=EndQuorumEpochRequest,
    response=EndQuorumEpochResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
