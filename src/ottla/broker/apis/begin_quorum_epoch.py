"""BeginQuorumEpoch (key 53), versions 0 and 1: a new leader announces itself to a voter (KIP-595).

- 1: directory ids, endpoints of the leader (KIP-853)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]


def handle(request: BeginQuorumEpochRequest, context: RequestContext, broker: Broker) -> BeginQuorumEpochResponse:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return BeginQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.elections.begin_epoch(request, api_version=context.api_version)


API = Api(
    request=BeginQuorumEpochRequest,
    response=BeginQuorumEpochResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
