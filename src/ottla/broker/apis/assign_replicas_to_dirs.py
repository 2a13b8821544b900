"""AssignReplicasToDirs (key 73), version 0: a broker reports the log directories of its replicas (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: AssignReplicasToDirsRequest, context: RequestContext, broker: Broker
) -> Deferred[AssignReplicasToDirsResponse]:
    if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


API = Api(
    request=AssignReplicasToDirsRequest,
    response=AssignReplicasToDirsResponse,
    handle=handle,
    portions=(
        Portions(
            request=("directories", "topics", "partitions"),
            response=("directories", "topics", "partitions"),
            size=500,
        ),
    ),
)
