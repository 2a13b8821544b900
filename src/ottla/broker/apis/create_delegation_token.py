"""CreateDelegationToken (key 38), versions 1 to 3: makes a token that acts for its owner (KIP-48).

- 2: flexible
- 3: a token for another owner than the requester, which needs CREATE_TOKENS on that user (KIP-373)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import Principal
from ottla.broker.token_requests import NO_TIME, ensure_may_ask
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]

# From this version on the response names the requester.
_REQUESTER_VERSION = 3
RENEWERS_MAX = 1_000


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext, broker: Broker
) -> CreateDelegationTokenResponse | Deferred[CreateDelegationTokenResponse]:
    requester = owner = context.principal
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    try:
        ensure_may_ask(context)
        # Without the groups: the request does not name those of the owner.
        if str(owner) != str(requester) and not context.allows(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if owner.type != "User" or any(renewer.principal_type != "User" for renewer in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except KafkaError as error:
        return _refused(error.code, owner, requester, context.api_version)
    answer = broker.controller.ask(request, context.for_controller())
    # An error of the way to the controller names the principals as well.
    return answer.recover(KafkaError, lambda error: _refused(error.code, owner, requester, context.api_version))


def _refused(code: ErrorCode, owner: Principal, requester: Principal, version: int) -> CreateDelegationTokenResponse:
    names_requester = version >= _REQUESTER_VERSION
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type if names_requester else "",
        token_requester_principal_name=requester.name if names_requester else "",
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


API = Api(
    request=CreateDelegationTokenRequest,
    response=CreateDelegationTokenResponse,
    handle=handle,
    elements_max=RENEWERS_MAX,
)
