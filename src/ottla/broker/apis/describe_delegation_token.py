"""DescribeDelegationToken (key 41), versions 1 to 3: the tokens that the requester may see, with their HMACs (KIP-48).

- 2: flexible
- 3: names the requester of a token (KIP-373)

Owners and renewers see their tokens. Other principals need DESCRIBE on the token, or DESCRIBE_TOKENS on its owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.token_requests import ensure_may_ask
from ottla.model.errors import ErrorCode, KafkaError
from ottla.sasl.delegation import token_hmac
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.metadata.image import DelegationTokenImage

__all__ = ["API"]

_REQUESTER_VERSION = 3


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext, broker: Broker
) -> DescribeDelegationTokenResponse:
    ensure_may_ask(context)
    secret = broker.config.delegation_token_secret_key
    if secret is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secret.value, names_requester=context.api_version >= _REQUESTER_VERSION)
            for token in _visible(broker, context, owners)
        ]
    )


def _visible(broker: Broker, context: RequestContext, owners: set[str] | None) -> Iterator[DelegationTokenImage]:
    requester = str(context.principal)
    for token in broker.metadata.image.delegation_tokens.values():
        holders = (token.owner, *token.renewers)
        if owners is not None and owners.isdisjoint(holders):
            continue
        if (
            requester in holders
            or context.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
            or context.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
        ):
            yield token


def _described(token: DelegationTokenImage, secret: str, *, names_requester: bool) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type if names_requester else "",
        token_requester_principal_name=requester_name if names_requester else "",
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )


API = Api(
    request=DescribeDelegationTokenRequest,
    response=DescribeDelegationTokenResponse,
    handle=handle,
    elements_max=10_000,
)
