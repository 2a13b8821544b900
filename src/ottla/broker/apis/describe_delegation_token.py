"""DescribeDelegationToken (key 41), versions 1 to 3: tokens, by owner (KIP-48).

- 2: flexible; 3: who asked for a token (KIP-373)

Tokens are for those who have authenticated themselves, which no listener has anybody do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: DescribeDelegationTokenRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> DescribeDelegationTokenResponse:
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
