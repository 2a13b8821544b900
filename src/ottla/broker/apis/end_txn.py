"""EndTxn (key 26), versions 0 to 5: a producer commits or aborts its transaction.

- 2: PRODUCER_FENCED; 3: flexible; 4: TRANSACTION_ABORTABLE
- 5: transactions of the second version (KIP-890), where every end raises the epoch; the answer has the new epoch

The answer is sent when the decision is committed; markers are written after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITH_PRODUCER_FENCED = 2
FIRST_VERSION_THAT_RAISES_THE_EPOCH = 5


def handle(request: EndTxnRequest, context: RequestContext, broker: Broker) -> Deferred[EndTxnResponse]:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def respond(identity: tuple[int, int] | None) -> EndTxnResponse:
        assert identity is not None
        return EndTxnResponse(producer_id=identity[0], producer_epoch=identity[1])

    client_version = 2 if context.api_version >= FIRST_VERSION_THAT_RAISES_THE_EPOCH else 0
    return broker.transactions.end(request, client_version=client_version).then(respond)


def error_response(request: EndTxnRequest, version: int, error: KafkaError) -> EndTxnResponse:  # noqa: ARG001
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code)


API = Api(request=EndTxnRequest, response=EndTxnResponse, handle=handle, error_response=error_response)
