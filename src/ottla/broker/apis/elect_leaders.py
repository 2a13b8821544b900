"""ElectLeaders (key 43), versions 0 to 2: leaders are elected on demand (KIP-183).

- 1: the kind of election, preferred or unclean (KIP-460); 2: flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["handle"]


def handle(request: ElectLeadersRequest, context: RequestContext, broker: Broker) -> Deferred[ElectLeadersResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.elect_leaders(request, context.for_controller())
