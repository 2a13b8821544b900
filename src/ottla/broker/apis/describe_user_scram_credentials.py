"""DescribeUserScramCredentials (key 50), version 0: the SCRAM mechanisms of users (KIP-554).

The answer has mechanisms and iteration counts, and nothing that is derived from a secret.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.metadata.controller.decision import repeated
from ottla.model.errors import ErrorCode
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
    from ottla.model.deferred import Deferred
    from ottla.wire.packed import PackedResponse

    Credentials = Mapping[tuple[str, int], ScramCredential]

__all__ = ["API"]

# SCRAM-SHA-256 and SCRAM-SHA-512.
_MECHANISMS = (1, 2)

# The words that Kafka's tests expect.
_REFUSALS = {
    ErrorCode.RESOURCE_NOT_FOUND: "Attempt to describe a user credential that does not exist",
    ErrorCode.DUPLICATE_RESOURCE: "Cannot describe SCRAM credentials for the same user twice in a single request",
}


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext, broker: Broker
) -> DescribeUserScramCredentialsResponse | Deferred[DescribeUserScramCredentialsResponse | PackedResponse]:
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        # As Kafka: the error again, for a user without a name.
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refusal = DescribeUserScramCredentialsResult(user="", error_code=code, error_message=None)
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=None, results=[refusal])
    credentials = broker.metadata.image.scram
    if not request.users:
        return answer_in_slices(_describe_all(credentials), context, broker)
    users = [user.name for user in request.users]
    repeated_users = repeated(users)
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[
            _refused(user, ErrorCode.DUPLICATE_RESOURCE) if user in repeated_users else _describe(user, credentials)
            for user in dict.fromkeys(users)
        ],
    )


def _describe_all(credentials: Credentials) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    response = DescribeUserScramCredentialsResponse(error_message="")
    for number, user in enumerate(dict.fromkeys(user for user, _ in sorted(credentials)), 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        response.results.append(_describe(user, credentials))
    return response


def _describe(user: str, credentials: Credentials) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        for mechanism in _MECHANISMS
        if (credential := credentials.get((user, mechanism))) is not None
    ]
    if not infos:
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND)
    return DescribeUserScramCredentialsResult(user=user, error_message="", credential_infos=infos)


def _refused(user: str, code: ErrorCode) -> DescribeUserScramCredentialsResult:
    message = f"{_REFUSALS[code]}: {user[:100]}"
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)


API = Api(
    request=DescribeUserScramCredentialsRequest,
    response=DescribeUserScramCredentialsResponse,
    handle=handle,
    portions=(Portions(request=("users",), response=("results",), size=1_000),),
)
