"""AlterPartitionReassignments (key 45), versions 0 to 1: starts and cancels reassignments of replicas (KIP-455).

- 1: the client may forbid a change of the replication factor (KIP-860)

The controller decides about every partition separately; the brokers then copy and delete replicas by the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, broker: Broker
) -> Deferred[AlterPartitionReassignmentsResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


def error_response(
    request: AlterPartitionReassignmentsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> AlterPartitionReassignmentsResponse:
    """The code for the request and for every partition of it."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=error.code, error_message=error.message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


API = Api(
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("topics", "partitions"), response=("responses", "partitions"), size=1_000),),
    elements_max=50_000,
)
