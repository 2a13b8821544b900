"""ListTransactions (key 66), versions 0 to 2: the transactions that this broker coordinates (KIP-664).

- 1: filter by duration (KIP-994); 2: by a pattern (KIP-1152), in RE2's syntax
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.coordinator.group.consumer.pattern import InvalidPattern, any_name
from ottla.coordinator.txn.admin import TransactionFilter
from ottla.coordinator.txn.states import STATUS_BY_NAME
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]


def handle(
    request: ListTransactionsRequest, context: RequestContext, broker: Broker
) -> Deferred[ListTransactionsResponse | PackedResponse]:
    statuses = {STATUS_BY_NAME[name] for name in request.state_filters if name in STATUS_BY_NAME}
    wanted = TransactionFilter(
        statuses=statuses if request.state_filters else None,
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        matches=_matcher(request.transactional_id_pattern),
    )
    unknown_states = [name for name in request.state_filters if name not in STATUS_BY_NAME]
    listed = broker.transactions.list_transactions(wanted)
    return listed.and_then(
        lambda transactions: answer_in_slices(_respond(transactions, unknown_states, context), context, broker)
    )


def _respond(
    transactions: list[TransactionState], unknown_states: list[str], context: RequestContext
) -> Generator[None, None, ListTransactionsResponse]:
    """The transactions that the client may describe."""
    response = ListTransactionsResponse(unknown_state_filters=unknown_states)
    for number, transaction in enumerate(transactions, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        if context.would_allow(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
            response.transaction_states.append(transaction)
    return response


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    if not pattern:
        return None
    try:
        matches = any_name(pattern)
    except InvalidPattern as error:
        raise _invalid(error) from error

    def matches_or_fails(transactional_id: str) -> bool:
        try:
            return matches(transactional_id)
        except InvalidPattern as error:
            raise _invalid(error) from error

    return matches_or_fails


def _invalid(error: InvalidPattern) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"The pattern cannot be used: {error}.")


API = Api(
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    handle=handle,
    elements_max=10_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
