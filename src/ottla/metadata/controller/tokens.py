"""Decisions about delegation tokens (KIP-48, KIP-373).

A token acts for its owner. It is valid until its expiry time, which its owner and its renewers may move, up to the
maximum lifetime that it was created with. The log contains the id of a token and not its HMAC, which every node
computes from the id and `delegation.token.secret.key`.

The log also contains the groups that the owner had when it made the token. The bearer is in these groups: without them
a user could make a token to escape from an ACL that denies something to a group. A token for another owner has no
groups, because only a login of the owner names them.
"""

from __future__ import annotations

import hmac

from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision, DecisionContext
from ottla.metadata.image import DelegationTokenImage
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.sasl.delegation import token_hmac
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

__all__ = [
    "TOKENS_LEVEL",
    "decide_create_delegation_token",
    "decide_expire_delegation_token",
    "decide_remove_expired_tokens",
    "decide_renew_delegation_token",
]

# From 3.6-IV2 on, the log may contain tokens.
TOKENS_LEVEL = 14
# From this version on the response names the requester.
_REQUESTER_VERSION = 3
_ANONYMOUS = "User:ANONYMOUS"
_TIMESTAMP_MAX = (1 << 63) - 1


def decide_create_delegation_token(
    request: CreateDelegationTokenRequest, context: DecisionContext
) -> Decision[CreateDelegationTokenResponse]:
    requester = _requester(context)
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    if context.api_version >= _REQUESTER_VERSION:
        response.token_requester_principal_type, _, response.token_requester_principal_name = requester.partition(":")
    response.error_code = _unavailable(context)
    if not response.error_code and (
        response.principal_type != "User" or any(renewer.principal_type != "User" for renewer in request.renewers)
    ):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
    if response.error_code:
        return Decision([], response)
    secret, now_ms, config = _secret(context), context.now_ms, context.config
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    record = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=now_ms,
        # A lifetime may be configured that no timestamp can express.
        max_timestamp=min(now_ms + lifetime_ms, _TIMESTAMP_MAX),
        expiration_timestamp=min(now_ms + min(lifetime_ms, config.delegation_token_expiry_time_ms), _TIMESTAMP_MAX),
        token_id=str(Uuid.random(context.random)),
        owner_groups=list(context.caller.groups) if context.caller is not None and owner == requester else [],
    )
    response.issue_timestamp_ms = record.issue_timestamp
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.max_timestamp_ms = record.max_timestamp
    response.token_id, response.hmac = record.token_id, token_hmac(secret, record.token_id)
    return Decision([record], response)


def decide_renew_delegation_token(
    request: RenewDelegationTokenRequest, context: DecisionContext
) -> Decision[RenewDelegationTokenResponse]:
    refused = RenewDelegationTokenResponse(error_code=_unavailable(context))
    if refused.error_code:
        return Decision([], refused)
    token = _find(bytes(request.hmac), context)
    if token is None:
        refused.error_code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    elif _is_expired(token, context):
        refused.error_code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    elif not _may_change(token, context):
        refused.error_code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    else:
        period_ms = context.config.delegation_token_expiry_time_ms
        if request.renew_period_ms > 0:
            period_ms = min(period_ms, request.renew_period_ms)
        record = _with_expiry(token, context.now_ms + period_ms)
        return Decision([record], RenewDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp))
    return Decision([], refused)


def decide_expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: DecisionContext
) -> Decision[ExpireDelegationTokenResponse]:
    """A negative period removes the token at once."""
    refused = ExpireDelegationTokenResponse(error_code=_unavailable(context))
    if refused.error_code:
        return Decision([], refused)
    token, now_ms = _find(bytes(request.hmac), context), context.now_ms
    if token is None:
        refused.error_code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    elif not _may_change(token, context):
        refused.error_code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    elif request.expiry_time_period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=token.token_id)
        return Decision([removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    elif _is_expired(token, context):
        refused.error_code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    else:
        record = _with_expiry(token, now_ms + request.expiry_time_period_ms)
        return Decision([record], ExpireDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp))
    return Decision([], refused)


def decide_remove_expired_tokens(context: DecisionContext) -> Decision[bool]:
    """The response is true if more tokens have expired than one decision may remove."""
    expired = [
        RemoveDelegationTokenRecord(token_id=token.token_id)
        for token in context.image.delegation_tokens.values()
        if _is_expired(token, context)
    ]
    return Decision(expired[:RECORDS_PER_DECISION_MAX], len(expired) > RECORDS_PER_DECISION_MAX)


def _unavailable(context: DecisionContext) -> ErrorCode:
    if context.config.delegation_token_secret_key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if context.image.features.metadata_version < TOKENS_LEVEL:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _secret(context: DecisionContext) -> str:
    key = context.config.delegation_token_secret_key
    assert key is not None
    return key.value


def _requester(context: DecisionContext) -> str:
    caller = context.caller
    return _ANONYMOUS if caller is None else f"{caller.principal_type}:{caller.principal_name}"


def _find(code: bytes, context: DecisionContext) -> DelegationTokenImage | None:
    """The token with this HMAC. Every token is compared, so that the time reveals nothing about other tokens."""
    secret, match = _secret(context), None
    for token in context.image.delegation_tokens.values():
        if hmac.compare_digest(token_hmac(secret, token.token_id), code):
            match = token
    return match


def _is_expired(token: DelegationTokenImage, context: DecisionContext) -> bool:
    return min(token.expiration_timestamp, token.max_timestamp) < context.now_ms


def _may_change(token: DelegationTokenImage, context: DecisionContext) -> bool:
    return _requester(context) in (token.owner, *token.renewers)


def _with_expiry(token: DelegationTokenImage, expires_ms: int) -> DelegationTokenRecord:
    lists = {"renewers": list(token.renewers), "owner_groups": list(token.owner_groups)}
    fields = {**token._asdict(), **lists}
    fields["expiration_timestamp"] = min(expires_ms, token.max_timestamp)
    return DelegationTokenRecord(**fields)
