"""DescribeQuorum (key 55), versions 0 to 2: leader, voters and observers of the metadata quorum (KIP-595).

- 1: when each replica last fetched and was last caught up; 2: directory ids, endpoints, error messages (KIP-853)

Only the leader knows, so a broker without the controller sends the request on. The quorum has one voter for now, which
is the leader and always caught up; the brokers of other nodes are observers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.controllers import RemoteController
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
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

__all__ = ["handle"]


def handle(
    request: DescribeQuorumRequest, context: RequestContext, broker: Broker
) -> DescribeQuorumResponse | Deferred[DescribeQuorumResponse]:
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=code, error_message=code.message)
    if broker.quorum is None:
        assert isinstance(broker.controller, RemoteController)
        return broker.controller.describe_quorum(request, context.for_controller())
    response = DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition(topic.topic_name, partition.partition_index, broker, context.api_version)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
    is_described = any(not partition.error_code for topic in response.topics for partition in topic.partitions)
    if context.api_version >= 2 and is_described:
        response.nodes = [
            Node(
                node_id=controller.controller_id,
                listeners=[
                    Listener(name=each.name, host=each.host, port=each.port) for each in controller.endpoints.values()
                ],
            )
            for _, controller in sorted(broker.metadata.image.cluster.controllers.items())
        ]
    return response


def _partition(topic: str, partition: int, broker: Broker, version: int) -> ResponsePartitionData:
    if topic != CLUSTER_METADATA_TOPIC or partition != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ResponsePartitionData(partition_index=partition, error_code=code, error_message=code.message)
    assert broker.quorum is not None
    log = broker.quorum.log
    now_ms = broker.world.clock.now_ms()
    return ResponsePartitionData(
        partition_index=0,
        leader_id=log.leader_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.committed_offset,
        current_voters=[
            ReplicaState(
                replica_id=voter,
                replica_directory_id=log.voter_directory_id if version >= 2 else Uuid.ZERO,
                log_end_offset=log.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in log.voter_ids
        ],
        observers=[
            ReplicaState(
                replica_id=observer.replica_id,
                replica_directory_id=observer.directory_id,
                log_end_offset=observer.log_end_offset,
                last_fetch_timestamp=observer.last_fetch_ms,
                last_caught_up_timestamp=observer.last_caught_up_ms,
            )
            for observer in broker.quorum.observers()
        ],
    )
