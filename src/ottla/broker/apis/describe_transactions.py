"""DescribeTransactions (key 65), version 0: how far the transactions of some ids are (KIP-664)."""

from __future__ import annotations

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

__all__ = ["handle"]


def handle(
    request: DescribeTransactionsRequest, context: RequestContext, broker: Broker
) -> Deferred[DescribeTransactionsResponse]:
    ids = list(dict.fromkeys(request.transactional_ids))
    states: dict[str, TransactionState] = {}
    answer: Deferred[DescribeTransactionsResponse] = Deferred()

    def on_described(transactional_id: str, done: Deferred[TransactionState]) -> None:
        if isinstance(done.error, KafkaError):
            states[transactional_id] = TransactionState(transactional_id=transactional_id, error_code=done.error.code)
        elif done.error is not None:
            states[transactional_id] = TransactionState(
                transactional_id=transactional_id, error_code=ErrorCode.UNKNOWN_SERVER_ERROR
            )
        else:
            states[transactional_id] = _visible(done.result(), context)
        if len(states) == len(ids):
            answer.resolve(DescribeTransactionsResponse(transaction_states=[states[each] for each in ids]))

    if not ids:
        answer.resolve(DescribeTransactionsResponse())
    for each in ids:
        if context.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each):
            described = broker.transactions.describe(each)
        else:
            described = Deferred.failed(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        described.when_done(lambda done, each=each: on_described(each, done))  # type: ignore[misc]
    return answer


def _visible(state: TransactionState, context: RequestContext) -> TransactionState:
    """Without the topics that the asker may not know of."""
    state.topics = [each for each in state.topics if context.allows(Operation.DESCRIBE, ResourceType.TOPIC, each.topic)]
    return state
