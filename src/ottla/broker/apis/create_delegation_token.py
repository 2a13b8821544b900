"""CreateDelegationToken (key 38), versions 1 to 3: a token that stands for its owner (KIP-48).

- 2: flexible; 3: tokens for somebody else (KIP-373)

Tokens are given only to those who have authenticated themselves, which no listener has anybody do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]

NO_TIME = -1
FIRST_VERSION_WITH_REQUESTER = 3


def handle(
    request: CreateDelegationTokenRequest,
    context: RequestContext,
    broker: Broker,  # noqa: ARG001
) -> CreateDelegationTokenResponse:
    requester = context.principal
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=requester.type,
        principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if context.api_version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type, response.token_requester_principal_name = (
            requester.type,
            requester.name,
        )
        if request.owner_principal_name:
            response.principal_type = request.owner_principal_type or ""
            response.principal_name = request.owner_principal_name
    return response
