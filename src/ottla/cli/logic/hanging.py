"""Hanging transactions: open in a partition, but unknown to their coordinator (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin import AdminClient
from ottla.client.admin.transactions import ProducerState
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["HangingTransaction", "find_hanging_transactions"]


class HangingTransaction(NamedTuple):
    partition: TopicPartition
    state: ProducerState


async def find_hanging_transactions(
    admin: AdminClient, partitions: Iterable[TopicPartition], *, older_than_ms: int
) -> list[HangingTransaction]:
    """Candidates are producers with an open transaction and no write since a moment; their coordinators decide."""
    candidates = []
    for partition, states in sorted((await admin.transactions.producers(partitions)).items()):
        if isinstance(states, KafkaError):
            continue
        candidates += [
            HangingTransaction(partition, state)
            for state in states
            if state.transaction_start_offset >= 0 and state.last_timestamp < older_than_ms
        ]
    if not candidates:
        return []
    ids = sorted({candidate.state.producer_id for candidate in candidates})
    listed = {
        transaction.producer_id: transaction.transactional_id
        for transaction in await admin.transactions.find(producer_ids=ids)
    }
    hanging = []
    for candidate in candidates:
        transactional_id = listed.get(candidate.state.producer_id)
        if transactional_id is not None:
            described = await admin.transactions.describe(transactional_id)
            if described.producer_id == candidate.state.producer_id and candidate.partition in described.partitions:
                continue
        hanging.append(candidate)
    return hanging
