"""UnregisterBroker (key 64), version 0: removes the registration of a broker (KIP-631)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: UnregisterBrokerRequest, context: RequestContext, broker: Broker
) -> Deferred[UnregisterBrokerResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


API = Api(request=UnregisterBrokerRequest, response=UnregisterBrokerResponse, handle=handle)
