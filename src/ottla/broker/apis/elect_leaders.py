"""ElectLeaders (key 43), versions 0 to 2: elects leaders on demand (KIP-183).

- 1: the kind of election, preferred or unclean (KIP-460); 2: flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(request: ElectLeadersRequest, context: RequestContext, broker: Broker) -> Deferred[ElectLeadersResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


def error_response(request: ElectLeadersRequest, version: int, error: KafkaError) -> ElectLeadersResponse:
    """The code for the request and for every partition of it: version 0 has no field for the former."""
    return ElectLeadersResponse(
        error_code=error.code if version >= 1 else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=partition, error_code=error.code, error_message=error.message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


API = Api(
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    handle=handle,
    error_response=error_response,
    portions=(
        Portions(
            request=("topic_partitions", "partitions"),
            response=("replica_election_results", "partition_result"),
            size=1_000,
        ),
    ),
    elements_max=100_000,
)
