"""AddPartitionsToTxn and AddOffsetsToTxn: a transaction grows, or begins; and the question whether one has begun.

Before a partition takes a producer's first transactional batch, its leader asks here (KIP-890): whether the producer's
transaction is open and has that partition (producers of the first version add it themselves), or to have it added.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.txn.state import TransactionShard, record_of
from ottla.coordinator.txn.states import PREPARED, TransactionStatus
from ottla.coordinator.txn.transaction import Transaction
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["decide_add_partitions", "verify_partitions"]


def decide_add_partitions(
    shard: TransactionShard,
    transactional_id: str,
    partitions: frozenset[TopicPartition],
    *,
    producer_id: int,
    producer_epoch: int,
    client_version: int,
    now_ms: int,
) -> Decision[None]:
    transaction = shard.transaction(transactional_id)
    if transaction.status in PREPARED:
        # Before anything else: the producer may have been told of a producer id that becomes its own only at the end.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    _check_producer(transaction, producer_id, producer_epoch)
    is_open = transaction.status is TransactionStatus.ONGOING
    if is_open and partitions <= transaction.partitions:
        return Decision((), None)
    record = transaction.change(
        TransactionStatus.ONGOING,
        now_ms=now_ms,
        partitions=transaction.partitions | partitions,
        start_ms=None if is_open else now_ms,
        client_version=client_version,
    )
    return Decision([record_of(transaction, record)], None)


def verify_partitions(
    shard: TransactionShard,
    transactional_id: str,
    partitions: Iterable[TopicPartition],
    *,
    producer_id: int,
    producer_epoch: int,
) -> dict[TopicPartition, ErrorCode]:
    transaction = shard.transaction(transactional_id)
    _check_producer(transaction, producer_id, producer_epoch)
    if transaction.status in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    members = transaction.partitions
    return {each: ErrorCode.NONE if each in members else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def _check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    if transaction.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
