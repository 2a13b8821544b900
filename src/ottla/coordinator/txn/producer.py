"""InitProducerId: a producer takes over a transactional id; a new epoch fences the previous producer.

An open transaction of the previous producer is aborted first, and the client retries until that is done. A producer
that sends its own id and epoch continues after an error and is fenced by a newer instance (KIP-360). When the epochs of
a producer id are used up, the transactional id gets another producer id.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinator.txn.ending import decide_fence
from ottla.coordinator.txn.state import TransactionShard, record_of
from ottla.coordinator.txn.states import PREPARED, TransactionStatus
from ottla.coordinator.txn.transaction import NO_EPOCH, NO_PRODUCER, NO_TIME, Transaction, is_exhausted
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["ABORTS_FIRST", "NEEDS_PRODUCER_ID", "ProducerAttempt", "ProducerIdentity", "decide_init"]


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


# The response of a decision that has to be repeated with a new producer id.
NEEDS_PRODUCER_ID = ProducerIdentity(NO_PRODUCER, NO_EPOCH)
# The response of a decision that aborts an open transaction: the client gets CONCURRENT_TRANSACTIONS and retries.
ABORTS_FIRST = ProducerIdentity(NO_PRODUCER, NO_EPOCH - 1)


class ProducerAttempt(NamedTuple):
    transactional_id: str
    timeout_ms: int
    # The producer id and epoch that the producer sends; None for a new producer.
    expected: ProducerIdentity | None


def decide_init(
    shard: TransactionShard, attempt: ProducerAttempt, fresh_producer_id: int | None, now_ms: int
) -> Decision[ProducerIdentity]:
    transaction = shard.transactions.get(attempt.transactional_id)
    if transaction is None:
        if fresh_producer_id is None:
            return Decision((), NEEDS_PRODUCER_ID)
        transaction = Transaction(attempt.transactional_id, producer_id=fresh_producer_id)
    if transaction.status in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    expected = attempt.expected
    if expected is not None and not _may_be(transaction, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.status is TransactionStatus.ONGOING:
        return _abort_first(shard, transaction, fresh_producer_id, now_ms)
    if transaction.is_exhausted and (expected is None or expected.producer_epoch == transaction.producer_epoch):
        if fresh_producer_id is None:
            return Decision((), NEEDS_PRODUCER_ID)
        identity = ProducerIdentity(fresh_producer_id, 0)
        last_epoch = NO_EPOCH if expected is None else transaction.producer_epoch
    else:
        epoch, last_epoch = _next_epoch(transaction, expected)
        identity = ProducerIdentity(transaction.producer_id, epoch)
    record = transaction.change(
        TransactionStatus.EMPTY,
        now_ms=now_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=attempt.timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
    )
    return Decision([record_of(transaction, record)], identity)


def _may_be(transaction: Transaction, expected: ProducerIdentity) -> bool:
    """True if the producer may own the transactional id: its producer id is the current one or the one just used up."""
    return (
        transaction.producer_epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.producer_epoch))
    )


def _next_epoch(transaction: Transaction, expected: ProducerIdentity | None) -> tuple[int, int]:
    """The next epoch, and the epoch that the client asked to follow."""
    current = transaction.producer_epoch
    if expected is None:
        return current + 1, NO_EPOCH
    if current == NO_EPOCH or (expected.producer_epoch == current and not transaction.is_exhausted):
        return current + 1, current
    if expected.producer_epoch == transaction.last_producer_epoch:
        # The response to the first request was lost.
        return current, transaction.last_producer_epoch
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _abort_first(
    shard: TransactionShard, transaction: Transaction, fresh_producer_id: int | None, now_ms: int
) -> Decision[ProducerIdentity]:
    fencing = decide_fence(shard, transaction, fresh_producer_id, now_ms)
    if fencing is None:
        return Decision((), NEEDS_PRODUCER_ID)
    return Decision(fencing.records, ABORTS_FIRST, on_settled=fencing.on_settled)
