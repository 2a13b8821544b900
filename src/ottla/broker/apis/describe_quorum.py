"""DescribeQuorum (key 55), versions 0 to 2: leader, voters and observers of the metadata quorum (KIP-595).

- 1: times of a replica's last fetch and of its last catch-up; 2: directory ids, endpoints, error messages (KIP-853)

Only the leader knows the answer: a broker forwards the request to it, another controller answers
NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.quorum.description import QuorumDescription, ReplicaDescription, describe_quorum
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(
    request: DescribeQuorumRequest, context: RequestContext, broker: Broker
) -> DescribeQuorumResponse | Deferred[DescribeQuorumResponse]:
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=code, error_message=code.message)
    described = None if broker.quorum is None else describe_quorum(broker.quorum)
    if described is None and not context.listener.is_controller:
        return broker.controller.ask(request, context.for_controller())
    response = DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition(topic.topic_name, partition.partition_index, described, context.api_version)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    is_described = any(not partition.error_code for topic in response.topics for partition in topic.partitions)
    if context.api_version >= 2 and is_described and broker.quorum is not None:
        # The endpoints of the voter set, which the voters use among themselves.
        response.nodes = [
            Node(
                node_id=voter.key.node_id,
                listeners=[
                    Listener(name=name, host=endpoint.host, port=endpoint.port) for name, endpoint in voter.endpoints
                ],
            )
            for voter in broker.quorum.log.voters
        ]
    return response


def _partition(topic: str, partition: int, described: QuorumDescription | None, version: int) -> ResponsePartitionData:
    if topic != CLUSTER_METADATA_TOPIC or partition != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ResponsePartitionData(partition_index=partition, error_code=code, error_message=code.message)
    if described is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ResponsePartitionData(partition_index=partition, error_code=code, error_message=code.message)
    return ResponsePartitionData(
        partition_index=0,
        leader_id=described.leader_id,
        leader_epoch=described.leader_epoch,
        high_watermark=described.high_watermark,
        current_voters=[_state(replica, version) for replica in described.voters],
        observers=[_state(replica, version) for replica in described.observers],
    )


def _state(replica: ReplicaDescription, version: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.replica_id,
        replica_directory_id=replica.directory_id if version >= 2 else Uuid.ZERO,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


API = Api(
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    handle=handle,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), size=1_000),),
)
