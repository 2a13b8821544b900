"""BrokerHeartbeat (key 63), versions 0 to 2: keeps a broker's session alive (KIP-631).

A heartbeat also asks for a controlled shutdown and reports failed log directories.

- 1: offline log directories (KIP-858); 2: cordoned log directories (KIP-1066)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: BrokerHeartbeatRequest, context: RequestContext, broker: Broker
) -> Deferred[BrokerHeartbeatResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller, connection = broker.local_controller, context.connection
    assert controller is not None, "only a controller's listener serves this API"
    connection.on_closed = partial(controller.broker_connection_closed, request.broker_id, connection.connection_id)
    return broker.controller.ask(request, context.for_controller())


API = Api(
    request=BrokerHeartbeatRequest,
    response=BrokerHeartbeatResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
