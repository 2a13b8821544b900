"""DescribeUserScramCredentials (key 50), version 0: the SCRAM mechanisms of users (KIP-554).

The answer has mechanisms and iteration counts, and nothing that is derived from a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.metadata.controller.decision import repeated
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.metadata.image import ScramCredential

__all__ = ["API"]


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, broker: Broker
) -> DescribeUserScramCredentialsResponse:
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    known = _by_user(broker.metadata.image.scram)
    asked = [user.name for user in request.users or ()]
    asked_twice = repeated(asked)
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[
            _refused(user, ErrorCode.DUPLICATE_RESOURCE)
            if user in asked_twice
            else DescribeUserScramCredentialsResult(user=user, error_message="", credential_infos=known[user])
            if user in known
            else _refused(user, ErrorCode.RESOURCE_NOT_FOUND)
            for user in dict.fromkeys(asked or known)
        ],
    )


def _by_user(credentials: Mapping[tuple[str, int], ScramCredential]) -> dict[str, list[CredentialInfo]]:
    by_user: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in sorted(credentials.items()):
        by_user.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    return by_user


def _refused(user: str, code: ErrorCode) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=f"{user[:100]}: {code.message}")


API = Api(
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    handle=handle,
    portions=(Portions(request=("users",), response=("results",), size=1_000),),
)
