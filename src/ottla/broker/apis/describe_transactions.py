"""DescribeTransactions (key 65), version 0: the state of transactions by transactional id (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(
    request: DescribeTransactionsRequest, context: RequestContext, broker: Broker
) -> Deferred[DescribeTransactionsResponse]:
    def describe(transactional_id: str) -> Deferred[TransactionState]:
        def undescribed(error: KafkaError) -> TransactionState:
            return TransactionState(transactional_id=transactional_id, error_code=error.code)

        if not context.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return Deferred.resolved(undescribed(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)))
        described = broker.transactions.describe(transactional_id)
        return described.then(lambda state: _visible(state, context)).recover(KafkaError, undescribed)

    states = gather([describe(transactional_id) for transactional_id in request.transactional_ids])
    return states.then(lambda states: DescribeTransactionsResponse(transaction_states=states))


def error_response(
    request: DescribeTransactionsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> DescribeTransactionsResponse:
    states = [TransactionState(transactional_id=name, error_code=error.code) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _visible(state: TransactionState, context: RequestContext) -> TransactionState:
    """Removes the topics that the client may not describe."""
    state.topics = [
        topic for topic in state.topics if context.would_allow(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
    ]
    return state


API = Api(
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("transactional_ids",), response=("transaction_states",), size=200, is_heavy=True),),
)
