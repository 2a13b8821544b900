"""Ends the workers of earlier runs by their transactional ids."""

from __future__ import annotations

from ottla.client.admin.transactions import Transactions
from ottla.client.cluster import Cluster
from ottla.mirror.settings import FlowSettings
from ottla.model.errors import KafkaError

__all__ = ["fence_workers"]


async def fence_workers(flow: FlowSettings, target: Cluster) -> int:
    """Fences all workers that the flow ever had, also those above a lowered `tasks.max`. Returns their number.

    Their open transactions are aborted. An exact flow has no transactional ids: its copies refuse other writers.
    """
    transactions = Transactions(target)
    prefix = f"{flow.group_id}-"
    ids = [
        transaction.transactional_id
        for transaction in await transactions.find()
        if transaction.transactional_id.startswith(prefix)
        and transaction.transactional_id.removeprefix(prefix).isdecimal()
    ]
    for result in (await transactions.fence(ids)).values():
        if isinstance(result, KafkaError):
            raise result
    return len(ids)
