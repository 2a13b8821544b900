"""Heartbeat (key 12), versions 0 to 4: keeps a member of a classic group alive and tells it about rebalances.

- 1: throttle time; 3: static members (KIP-345); 4: flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: HeartbeatRequest, context: RequestContext, broker: Broker) -> Deferred[HeartbeatResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.groups.heartbeat(request)


API = Api(request=HeartbeatRequest, response=HeartbeatResponse, handle=handle)
