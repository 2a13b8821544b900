"""ExpireDelegationToken (key 40), versions 1 and 2: sets the expiry time of a token, or removes it at once (KIP-48).

- 2: flexible

The controller allows it to the owner and the renewers of the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.token_requests import NO_TIME, ensure_may_ask
from ottla.model.errors import KafkaError
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext, broker: Broker
) -> Deferred[ExpireDelegationTokenResponse]:
    ensure_may_ask(context)
    return broker.controller.ask(request, context.for_controller())


def error_response(
    request: ExpireDelegationTokenRequest,  # noqa: ARG001
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)


API = Api(
    request=ExpireDelegationTokenRequest,
    response=ExpireDelegationTokenResponse,
    handle=handle,
    error_response=error_response,
)
