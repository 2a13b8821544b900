"""Transactions: the list, hanging transactions, and the end of a transaction."""

from __future__ import annotations

import time
from typing import Any

from ottla.cli.logic.hanging import find_hanging_transactions
from ottla.client.admin.transactions import DescribedTransaction, ListedTransaction
from ottla.console.answers import ApiError, PageRequest, number_of, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.words import count_of, partition_json
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TRANSACTION_ROUTES"]

# A transaction hangs if its producer has been silent for longer than transactions may take.
SILENCE_MINUTES = 15
# Partitions that are searched for hanging transactions.
PARTITIONS_MAX = 20_000


async def _transactions(call: Call) -> dict[str, Any]:
    query = call.query
    page = PageRequest.of(query, sort="transactional_id", sortable=("transactional_id", "state"))
    states = [query["state"]] if query.get("state") else []
    rows = [
        transaction
        for transaction in await call.admin.transactions.find(states=states)
        if page.matches(transaction.transactional_id)
    ]
    by_state = page.sort == "state"
    shown = page.cut(
        rows,
        lambda transaction: (
            (transaction.state, transaction.transactional_id) if by_state else transaction.transactional_id
        ),
    )
    described = await call.admin.transactions.describe_each(transaction.transactional_id for transaction in shown)
    return page_of(
        [_item(transaction, described.get(transaction.transactional_id)) for transaction in shown], len(rows), page
    )


def _item(listed: ListedTransaction, described: DescribedTransaction | KafkaError | None) -> dict[str, Any]:
    known = described if isinstance(described, DescribedTransaction) else None
    return {
        "transactional_id": listed.transactional_id,
        "coordinator": listed.coordinator,
        "producer_id": listed.producer_id,
        "state": listed.state if known is None else known.state,
        "started": None if known is None or known.start_time_ms <= 0 else known.start_time_ms,
        "timeout_ms": None if known is None else known.timeout_ms,
        "partitions": None if known is None else len(known.partitions),
    }


async def _transaction(call: Call) -> dict[str, Any]:
    transaction = await call.admin.transactions.describe(call.part("id"))
    listed = ListedTransaction(
        transaction.transactional_id, transaction.coordinator, transaction.producer_id, transaction.state
    )
    return {
        **_item(listed, transaction),
        "producer_epoch": transaction.producer_epoch,
        "partition_list": [partition_json(partition) for partition in transaction.partitions],
    }


async def _hanging(call: Call) -> dict[str, Any]:
    minutes = number_of(call.query, "minutes", SILENCE_MINUTES, least=0)
    state = await call.view.state.get()
    internal = {row.name for row in state.rows if row.is_internal}
    partitions = [partition for partition in state.led if partition.topic not in internal][:PARTITIONS_MAX]
    now = int(time.time() * 1000)
    transactions = await find_hanging_transactions(call.admin, partitions, older_than_ms=now - minutes * 60_000)
    items = [
        {
            **partition_json(transaction.partition),
            "producer_id": transaction.state.producer_id,
            "producer_epoch": transaction.state.producer_epoch,
            "coordinator_epoch": transaction.state.coordinator_epoch,
            "start_offset": transaction.state.transaction_start_offset,
            "last_timestamp": transaction.state.last_timestamp,
            "age_ms": max(now - transaction.state.last_timestamp, 0),
        }
        for transaction in transactions
    ]
    return {"items": items, "total": len(items), "page": 1, "size": len(items), "looked_at": len(partitions)}


async def _terminate(call: Call) -> Change:
    transactional_id = call.part("id")
    transaction = await call.admin.transactions.describe(transactional_id)

    async def apply() -> dict[str, Any]:
        await call.admin.transactions.terminate(transactional_id)
        return {"terminated": transactional_id}

    return Change(
        plan=[
            f"Fences producer {transaction.producer_id} of {transactional_id}, which is {transaction.state}, and "
            f"aborts its open transaction in {count_of(len(transaction.partitions), 'partition')}."
        ],
        command=command_line(
            "transactions",
            "forceTerminateTransaction",
            options=[("--transactional-id", transactional_id), ("--yes", True)],
        ),
        apply=apply,
        warnings=["The producer fails at its next request and has to be started again."],
    )


async def _abort(call: Call) -> Change:
    partition = TopicPartition(call.text("topic"), call.whole("partition"))
    start = call.whole("start_offset")
    states = (await call.admin.transactions.producers([partition]))[partition]
    if isinstance(states, KafkaError):
        raise states
    state = next((candidate for candidate in states if candidate.transaction_start_offset == start), None)
    if state is None:
        raise ApiError(404, "NOT_FOUND", f"No transaction of {partition} begins at offset {start}.")

    async def apply() -> dict[str, Any]:
        await call.admin.transactions.abort(
            partition,
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            # A partition without a marker has no coordinator epoch, so any epoch is newer.
            coordinator_epoch=max(state.coordinator_epoch, 0),
        )
        return {"aborted": state.producer_id}

    return Change(
        plan=[f"Aborts the transaction of producer {state.producer_id} in {partition}, open since offset {start}."],
        command=command_line(
            "transactions",
            "abort",
            options=[
                ("--topic", partition.topic),
                ("--partition", partition.partition),
                ("--start-offset", start),
                ("--yes", True),
            ],
        ),
        apply=apply,
        warnings=["Records of this transaction will never be seen by read_committed consumers."],
    )


TRANSACTION_ROUTES = (
    Route("GET", "/api/transactions", _transactions),
    Route("GET", "/api/transactions/hanging", _hanging),
    Route("GET", "/api/transactions/{id}", _transaction),
    Route("POST", "/api/transactions/abort", _abort, Need.WRITE),
    Route("POST", "/api/transactions/{id}/terminate", _terminate, Need.WRITE),
)
