"""RenewDelegationToken (key 39), versions 1 and 2: moves a token's expiry time, up to its maximum lifetime (KIP-48).

- 2: flexible

The controller allows it to the owner and the renewers of the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.token_requests import NO_TIME, ensure_may_ask
from ottla.model.errors import KafkaError
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext, broker: Broker
) -> Deferred[RenewDelegationTokenResponse]:
    ensure_may_ask(context)
    return broker.controller.ask(request, context.for_controller())


def error_response(
    request: RenewDelegationTokenRequest,  # noqa: ARG001
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)


API = Api(
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    handle=handle,
    error_response=error_response,
)
