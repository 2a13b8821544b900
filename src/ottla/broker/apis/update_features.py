"""UpdateFeatures (key 57), versions 0 to 2: raises or lowers finalized feature levels (KIP-584).

- 1: kinds of upgrade (downgrades need one), validate-only; 2: no results for single features any more

All updates are made or none: an error is answered for the request as a whole in every version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(
    request: UpdateFeaturesRequest, context: RequestContext, broker: Broker
) -> UpdateFeaturesResponse | Deferred[UpdateFeaturesResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=code, error_message=code.message)
    return broker.controller.ask(request, context.for_controller())


API = Api(
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    handle=handle,
    elements_max=1_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
