"""InitProducerId (key 22), versions 0 to 5: an id and epoch for an idempotent producer (KIP-98).

- 2: flexible; 3: a producer may name its former id and epoch (KIP-360); 4: PRODUCER_FENCED; 5: transactions v2

A producer without a transactional id gets a new id each time, whatever it had before. Transactional ids are refused
with UNSUPPORTED_VERSION, which clients take for final: there is no transaction coordinator yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["handle"]


def handle(
    request: InitProducerIdRequest, context: RequestContext, broker: Broker
) -> InitProducerIdResponse | Deferred[InitProducerIdResponse]:
    if request.transactional_id is not None:
        return _refused(_refusal(request.transactional_id, context))
    if not context.allows(
        Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    ) and not context.authorizer.authorize_by_resource_type(context, Operation.WRITE, ResourceType.TOPIC):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answer: Deferred[InitProducerIdResponse] = Deferred()

    def finish(given: Deferred[int]) -> None:
        if given.error is None:
            answer.resolve(InitProducerIdResponse(producer_id=given.result(), producer_epoch=0))
        elif isinstance(given.error, KafkaError):
            answer.resolve(_refused(given.error.code))
        else:
            answer.fail(given.error)

    broker.producer_ids.next_id().when_done(finish)
    return answer


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


def _refusal(transactional_id: str, context: RequestContext) -> ErrorCode:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST if not transactional_id else ErrorCode.UNSUPPORTED_VERSION
