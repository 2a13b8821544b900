"""AlterUserScramCredentials (key 51), version 0: sets and removes SCRAM credentials (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext, broker: Broker
) -> Deferred[AlterUserScramCredentialsResponse]:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return broker.controller.ask(request, context.for_controller())


def error_response(
    request: AlterUserScramCredentialsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(
        [change.name for change in request.deletions] + [change.name for change in request.upsertions]
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in users
        ]
    )


API = Api(
    request=AlterUserScramCredentialsRequest,
    response=AlterUserScramCredentialsResponse,
    handle=handle,
    error_response=error_response,
    elements_max=10_000,
)
