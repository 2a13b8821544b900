# Written by tools/generate_messages.py from definitions/66_list_transactions.txt: change the definition, not this file.
"""ListTransactions, API key 66.

Transactions of a coordinator, by state, producer, duration (1, KIP-994) and pattern (2, KIP-1152).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "TransactionState",
]


class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    """Request, versions 0 to 2, flexible."""

    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")

    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("state_filters", "[string]", (0, 32767), None, None, (), False),
        ("producer_id_filters", "[int64]", (0, 32767), None, None, (), False),
        ("duration_filter", "int64", (1, 32767), None, None, -1, False),
        ("transactional_id_pattern", "string", (2, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        state_filters: list[str] = EMPTY,
        producer_id_filters: list[int] = EMPTY,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is EMPTY else state_filters
        self.producer_id_filters = [] if producer_id_filters is EMPTY else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(Structure):
    """An element of `ListTransactionsResponse.transaction_states`."""

    __slots__ = ("transactional_id", "producer_id", "transaction_state")

    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("transaction_state", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Message):
    """Response, versions 0 to 2, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")

    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("unknown_state_filters", "[string]", (0, 32767), None, None, (), False),
        ("transaction_states", "[TransactionState]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = EMPTY,
        transaction_states: list[TransactionState] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is EMPTY else unknown_state_filters
        self.transaction_states = [] if transaction_states is EMPTY else transaction_states
