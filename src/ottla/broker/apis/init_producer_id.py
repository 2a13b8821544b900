"""InitProducerId (key 22), versions 0 to 5: an id and epoch for an idempotent or transactional producer (KIP-98).

- 2: flexible; 3: a producer may name its former id and epoch (KIP-360); 4: PRODUCER_FENCED; 5: transactions v2
- 6, with two-phase commits (KIP-939), is unfinished in Apache Kafka and not advertised; its fields are understood

A producer without a transactional id gets a new id with every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITH_PRODUCER_FENCED = 4
NO_PRODUCER = -1


def handle(
    request: InitProducerIdRequest, context: RequestContext, broker: Broker
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    if request.transactional_id is None:
        if not context.would_allow(
            Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
        ) and not context.authorizer.authorize_by_resource_type(context, Operation.WRITE, ResourceType.TOPIC):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id) or (
        request.enable_2pc
        and not context.allows(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    ):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER) is not (request.producer_epoch == NO_PRODUCER):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return broker.producer_ids.next_id().then(
            lambda producer_id: InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        )
    return broker.transactions.init_producer(request).then(
        lambda identity: InitProducerIdResponse(
            producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
        )
    )


def error_response(request: InitProducerIdRequest, version: int, error: KafkaError) -> InitProducerIdResponse:  # noqa: ARG001
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER)


API = Api(request=InitProducerIdRequest, response=InitProducerIdResponse, handle=handle, error_response=error_response)
