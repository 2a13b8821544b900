"""DescribeTransactions (key 65), version 0: how far the transactions of some ids are (KIP-664)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["error_response", "handle"]


def handle(
    request: DescribeTransactionsRequest, context: RequestContext, broker: Broker
) -> Deferred[DescribeTransactionsResponse]:
    ids = request.transactional_ids
    states: dict[int, TransactionState] = {}
    answer: Deferred[DescribeTransactionsResponse] = Deferred()

    def on_described(place: int, done: Deferred[TransactionState]) -> None:
        if isinstance(done.error, KafkaError):
            states[place] = TransactionState(transactional_id=ids[place], error_code=done.error.code)
        else:
            states[place] = _visible(done.result(), context)
        if len(states) == len(ids):
            answer.resolve(DescribeTransactionsResponse(transaction_states=[states[each] for each in sorted(states)]))

    if not ids:
        answer.resolve(DescribeTransactionsResponse())
    for place, each in enumerate(ids):
        if context.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each):
            described = broker.transactions.describe(each)
        else:
            described = Deferred.failed(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        described.when_done(partial(on_described, place))
    return answer


def error_response(
    request: DescribeTransactionsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> DescribeTransactionsResponse:
    states = [TransactionState(transactional_id=each, error_code=error.code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _visible(state: TransactionState, context: RequestContext) -> TransactionState:
    """Without the topics that the asker may not know of."""
    state.topics = [each for each in state.topics if context.allows(Operation.DESCRIBE, ResourceType.TOPIC, each.topic)]
    return state
