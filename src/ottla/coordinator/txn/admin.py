"""ListTransactions, DescribeTransactions, and the expiry of transactional ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from ottla.coordinator.txn.state import TransactionShard
from ottla.coordinator.txn.states import EXPIRABLE, TransactionStatus
from ottla.coordinator.txn.transaction import Transaction
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_transactions import TopicData
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction
from ottla.wire.messages.transaction_records import TransactionLogKey

__all__ = ["TransactionFilter", "decide_expiry", "describe", "list_transactions"]


class TransactionFilter(NamedTuple):
    """The filters of ListTransactions; a transaction has to match all of them."""

    # None matches every status.
    statuses: Collection[TransactionStatus] | None = None
    producer_ids: Collection[int] = ()
    # The minimum time that the transaction has been open; negative matches every time.
    duration_ms: int = -1
    matches: Callable[[str], bool] | None = None

    def accepts(self, transaction: Transaction, now_ms: int) -> bool:
        return (
            (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.statuses is None or transaction.status in self.statuses)
            and (self.duration_ms < 0 or now_ms - transaction.start_ms > self.duration_ms)
            and (self.matches is None or self.matches(transaction.transactional_id))
        )


def list_transactions(
    shard: TransactionShard, transactional_ids: Iterable[str], wanted: TransactionFilter, now_ms: int
) -> list[ListedTransaction]:
    return [
        ListedTransaction(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.status.label,
        )
        for transactional_id in transactional_ids
        if (transaction := shard.transactions.get(transactional_id)) is not None and wanted.accepts(transaction, now_ms)
    ]


def describe(shard: TransactionShard, transactional_id: str) -> DescribedTransaction:
    """Raises TRANSACTIONAL_ID_NOT_FOUND."""
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.status.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )


def expired_ids(shard: TransactionShard, now_ms: int) -> Iterator[str]:
    return (
        transaction.transactional_id
        for transaction in shard.transactions.values()
        if _has_expired(shard, transaction, now_ms)
    )


def decide_expiry(shard: TransactionShard, transactional_id: str, now_ms: int) -> Decision[None]:
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or not _has_expired(shard, transaction, now_ms):
        return Decision((), None)
    return Decision([(TransactionLogKey(transactional_id=transactional_id), None)], None)


def _has_expired(shard: TransactionShard, transaction: Transaction, now_ms: int) -> bool:
    expiration_ms = shard.context.config.transactional_id_expiration_ms
    return transaction.status in EXPIRABLE and transaction.last_update_ms + expiration_ms <= now_ms
