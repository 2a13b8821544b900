"""RenewDelegationToken (key 39), versions 1 to 2: moves the time at which a token expires (KIP-48).

- 2: flexible

Tokens are for those who have authenticated themselves, which no listener has anybody do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]

NO_TIME = -1


def handle(
    request: RenewDelegationTokenRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
