"""BrokerRegistration (key 62), versions 0 to 4: registers a broker, once per start (KIP-631).

- 1: brokers that migrate from ZooKeeper, which are refused; 2: log directories (KIP-858)
- 3: the epoch of the last clean shutdown (KIP-966); 4: features whose lowest level is 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: BrokerRegistrationRequest, context: RequestContext, broker: Broker
) -> Deferred[BrokerRegistrationResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


API = Api(
    request=BrokerRegistrationRequest,
    response=BrokerRegistrationResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
