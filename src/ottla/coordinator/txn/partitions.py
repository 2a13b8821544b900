"""AddPartitionsToTxn and AddOffsetsToTxn: adds partitions to a transaction, or verifies that it has them.

Before a partition takes a producer's first transactional batch, its leader asks the coordinator (KIP-890). For
producers of the first version, which add partitions themselves, it asks whether the transaction is open and has the
partition. For later producers it adds the partition.
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
        # Checked first: the producer may already use the next producer id, which becomes valid at completion.
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
    missing = ErrorCode.TRANSACTION_ABORTABLE
    return {partition: ErrorCode.NONE if partition in transaction.partitions else missing for partition in partitions}


def _check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    if transaction.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
