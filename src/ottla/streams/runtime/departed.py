"""Ends transactions of workers that are gone, so that their tasks go on elsewhere before these time out."""

from __future__ import annotations

from collections.abc import Collection

from ottla.client.admin.transactions import Transactions
from ottla.client.cluster import Cluster
from ottla.streams.runtime.identity import is_transactional_id_of

__all__ = ["end_transactions_of_departed"]


async def end_transactions_of_departed(cluster: Cluster, application_id: str, alive: Collection[str]) -> None:
    """Fences the workers of the application that are not `alive` and have a transaction open.

    A worker that has joined since is fenced as well if it is already in a transaction. It begins again then, and no
    result is lost or doubled.
    """
    transactions = Transactions(cluster)
    for transaction in await transactions.find(states=["Ongoing"]):
        identity = transaction.transactional_id
        if identity not in alive and is_transactional_id_of(application_id, identity):
            await transactions.terminate(identity)
