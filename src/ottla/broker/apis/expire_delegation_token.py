"""ExpireDelegationToken (key 40), versions 1 to 2: ends a token (KIP-48).

- 2: flexible

Tokens are for those who have authenticated themselves, which no listener has anybody do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]

NO_TIME = -1


def handle(
    request: ExpireDelegationTokenRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
