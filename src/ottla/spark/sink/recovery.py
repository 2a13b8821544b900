"""Ends abandoned transactions: a killed task leaves its transaction open, and readers of committed records wait for it.

The next attempt of the task aborts it by initialising the same transactional id. There is no such attempt if the batch
failed for good or the query has fewer tasks now. Then the driver does it, at the start of a query and after a failed
batch: it lists open transactions of the query and initialises their transactional ids, which fences remaining writers
and aborts at once. Readers do not wait for the transaction time-out.
"""

from __future__ import annotations

import asyncio
import re

from ottla.client.admin import AdminClient
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["end_open_transactions", "transactional_id"]

# The states of unfinished transactions.
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_GONE = (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def transactional_id(query_name: str, partition: int) -> str:
    """The transactional id of a task of a query, on any worker."""
    return f"{query_name}-{partition}"


async def end_open_transactions(admin: AdminClient, query_name: str) -> list[str]:
    """Fences the producers of a query's open transactions, and waits until these are aborted or committed.

    Afterwards the query's markers do not change until one of its tasks writes again.
    """
    ours = re.compile(re.escape(query_name) + r"-\d+")
    transactions = await admin.transactions.find(states=_OPEN)
    names = sorted(
        {transaction.transactional_id for transaction in transactions if ours.fullmatch(transaction.transactional_id)}
    )

    async def end(name: str) -> None:
        try:
            # Retried until the previous transaction has completed.
            await admin.connections.retry(lambda: admin.transactions.terminate(name))
        except KafkaError as error:
            if error.code not in _GONE:
                raise

    await asyncio.gather(*[end(name) for name in names])
    return names
