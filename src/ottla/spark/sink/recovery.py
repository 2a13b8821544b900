"""Transactions that nobody will end: a killed task leaves one open, and readers of committed records wait for it.

The next attempt of the same task ends it, by asking for the same transactional id. Who ends it when there is no such
attempt, because the batch failed for good or the query has fewer tasks now? The driver does, at the beginning of a
query and after a failed batch: it looks for open transactions of the query and asks for their ids, which fences
whoever may still be writing and aborts at once. Nobody waits for the timeout.
"""

from __future__ import annotations

import asyncio
import re

from ottla.client.admin import AdminClient
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["end_open_transactions", "transactional_id"]

# All states in which something has not come to its end.
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_GONE = (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def transactional_id(query_name: str, partition: int) -> str:
    """One for each task of a query, whichever worker runs it."""
    return f"{query_name}-{partition}"


async def end_open_transactions(admin: AdminClient, query_name: str) -> list[str]:
    """Fences the producers of a query that have something open, and waits until it is aborted or committed.

    Afterwards what the query has committed stays as it is until somebody of the query writes again.
    """
    ours = re.compile(re.escape(query_name) + r"-\d+")
    found = await admin.transactions.find(states=_OPEN)
    names = sorted({one.transactional_id for one in found if ours.fullmatch(one.transactional_id)})

    async def end(name: str) -> None:
        try:
            # Answers only when the transaction before has ended; until then it says so, and is asked again.
            await admin.connections.retry(lambda: admin.transactions.terminate(name))
        except KafkaError as error:
            if error.code not in _GONE:
                raise

    await asyncio.gather(*[end(name) for name in names])
    return names
