"""AlterClientQuotas (key 49), versions 0 to 1: sets and removes quotas of users, client ids and addresses (KIP-546).

- 1: flexible

The controller decides about every entity separately. It needs ALTER_CONFIGS on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: AlterClientQuotasRequest, context: RequestContext, broker: Broker
) -> Deferred[AlterClientQuotasResponse]:
    if not context.allows(Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


def error_response(request: AlterClientQuotasRequest, version: int, error: KafkaError) -> AlterClientQuotasResponse:  # noqa: ARG001
    """The same error for every entity of the request."""
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
    )


API = Api(
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("entries",), response=("entries",), size=500),),
    elements_max=20_000,
)
