"""Removes workers that leave, and ends transactions of departed workers: their tasks move without time-outs."""

from __future__ import annotations

import logging
from collections.abc import Collection

from ottla.client.admin.groups import Groups
from ottla.client.admin.transactions import Transactions
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.streams.runtime.identity import is_transactional_id_of

__all__ = ["end_transactions_of_departed", "leave_group"]

_log = logging.getLogger(__name__)


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


async def leave_group(cluster: Cluster, application_id: str, instance_id: str) -> None:
    """Static members leave only if they are removed. Other workers take the tasks at once then."""
    try:
        await Groups(cluster).remove_members(application_id, [instance_id], reason="the worker has stopped")
    except (KafkaError, ClientError) as error:
        _log.warning("%s leaves its group by a time-out only: %s", instance_id, error)
