"""AllocateProducerIds (key 67), version 0: gives a broker a block of producer ids (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: AllocateProducerIdsRequest, context: RequestContext, broker: Broker
) -> Deferred[AllocateProducerIdsResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


API = Api(request=AllocateProducerIdsRequest, response=AllocateProducerIdsResponse, handle=handle)
