"""AlterPartition (key 56), versions 2 to 3: a leader reports the in-sync replicas of partitions (KIP-497).

- 3: the in-sync replicas come with their broker epochs (KIP-903)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(request: AlterPartitionRequest, context: RequestContext, broker: Broker) -> Deferred[AlterPartitionResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


def error_response(request: AlterPartitionRequest, version: int, error: KafkaError) -> AlterPartitionResponse:  # noqa: ARG001
    return AlterPartitionResponse(error_code=error.code)


API = Api(
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), size=1_000),),
    elements_max=300_000,
)
