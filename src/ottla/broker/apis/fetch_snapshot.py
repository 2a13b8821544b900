"""FetchSnapshot (key 59), versions 0 to 1: a piece of a snapshot of the metadata log (KIP-630).

- 1: the replica's directory, and addresses of controllers (KIP-853); addresses are not answered
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]


def handle(request: FetchSnapshotRequest, context: RequestContext, broker: Broker) -> FetchSnapshotResponse:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return FetchSnapshotResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert broker.quorum is not None, "only a controller has this listener"
    return broker.quorum.leader.fetch_snapshot(request)


API = Api(
    request=FetchSnapshotRequest,
    response=FetchSnapshotResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
