"""Fetch (key 1), versions 4 to 18, on a controller's listener: the metadata log, for voters and observers (KIP-595).

Observers get committed batches only. A fetch of any other topic than `__cluster_metadata` is an INVALID_REQUEST.
Sessions are not used: every request names the only partition.

- 12: the epoch last fetched; the answer may name a diverging epoch, the leader, or a snapshot
- 13: the topic is named by its id; 15: the replica's id moved into `replica_state`
- 17: the replica's directory (KIP-853); 18: the replica's high watermark (KIP-1166)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.fetch_senders import is_from_follower
from ottla.model.errors import ErrorCode
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]

_REPLICA_STATE_VERSION = 15


def handle(request: FetchRequest, context: RequestContext, broker: Broker) -> FetchResponse | Deferred[FetchResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert broker.quorum is not None, "only a controller has this listener"
    replica_id = request.replica_id
    if context.api_version >= _REPLICA_STATE_VERSION and request.replica_state is not None:
        replica_id = request.replica_state.replica_id
    return broker.quorum.leader.fetch(request, replica_id=replica_id, api_version=context.api_version)


def _refused(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """The error for the request, and again for every partition."""
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=wanted.partition, error_code=code, high_watermark=-1)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = Api(
    request=FetchRequest,
    response=FetchResponse,
    handle=handle,
    is_from_broker=is_from_follower,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
