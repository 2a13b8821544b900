"""The end of a transaction, by its producer, by a newer instance of the producer, or by timeout.

A transaction ends in two steps in the log. The first record, Prepare..., is the decision: no later failure changes it.
After its commit the client is answered and markers go to every partition (`markers`). After the last marker the second
record, Complete..., frees the id for the next transaction.

In the second version of transactions (KIP-890) each end raises the epoch, so that partitions refuse late batches of the
ended transaction. A repeated request is recognised by the previous epoch.
"""

from __future__ import annotations

from functools import partial

from ottla.coordinator.txn.state import TransactionShard, on_prepared, record_of
from ottla.coordinator.txn.states import PREPARED, TransactionStatus
from ottla.coordinator.txn.transaction import EPOCH_MAX, NO_EPOCH, NO_PRODUCER, SECOND_VERSION, Transaction
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest

__all__ = ["EndResult", "decide_complete", "decide_end", "decide_fence", "decide_timeout"]

_S = TransactionStatus

# The producer id and epoch of the next transaction; None if the decision needs a new producer id.
EndResult = tuple[int, int] | None


def decide_end(
    shard: TransactionShard, request: EndTxnRequest, client_version: int, fresh_producer_id: int | None, now_ms: int
) -> Decision[EndResult]:
    transaction = shard.transaction(request.transactional_id)
    if client_version < SECOND_VERSION:
        return _decide_end_first_version(shard, transaction, request, now_ms)
    return _decide_end_second_version(shard, transaction, request, fresh_producer_id, now_ms)


def decide_fence(
    shard: TransactionShard, transaction: Transaction, fresh_producer_id: int | None, now_ms: int
) -> Decision[EndResult] | None:
    """Aborts an open transaction and fences its producer; None if the decision needs a new producer id."""
    transaction.check(_S.PREPARE_EPOCH_FENCE)
    version = shard.context.transaction_version
    if version >= SECOND_VERSION:
        if transaction.is_exhausted and fresh_producer_id is None:
            return None
        return _prepare(shard, transaction, _S.PREPARE_ABORT, version, fresh_producer_id, now_ms)
    record = transaction.change(
        _S.PREPARE_ABORT,
        now_ms=now_ms,
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=NO_EPOCH,
        next_producer_id=NO_PRODUCER,
        client_version=0,
    )
    return Decision([record_of(transaction, record)], (NO_PRODUCER, NO_EPOCH), on_settled=_settled(shard, transaction))


def decide_timeout(
    shard: TransactionShard, transactional_id: str, fresh_producer_id: int | None, now_ms: int
) -> Decision[EndResult]:
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or not has_timed_out(transaction, now_ms):
        return Decision((), (NO_PRODUCER, NO_EPOCH))
    return decide_fence(shard, transaction, fresh_producer_id, now_ms) or Decision((), None)


def has_timed_out(transaction: Transaction, now_ms: int) -> bool:
    return (
        transaction.status is _S.ONGOING
        and transaction.may_time_out
        and transaction.start_ms + transaction.timeout_ms < now_ms
    )


def decide_complete(
    shard: TransactionShard,
    transactional_id: str,
    *,
    producer_id: int,
    producer_epoch: int,
    prepared_ms: int,
    now_ms: int,
) -> Decision[None]:
    """All markers of the transaction that was prepared at `prepared_ms` are written.

    In the first version of transactions the next transaction has the same epoch, and only the time tells it apart from
    a late retry for this one.
    """
    transaction = shard.transactions.get(transactional_id)
    if (
        transaction is None
        or transaction.status not in PREPARED
        or (transaction.producer_id, transaction.producer_epoch) != (producer_id, producer_epoch)
        or transaction.last_update_ms != prepared_ms
    ):
        return Decision((), None)
    is_commit = transaction.status is _S.PREPARE_COMMIT
    takes_next = transaction.is_second_version and transaction.next_producer_id != NO_PRODUCER
    record = transaction.change(
        _S.COMPLETE_COMMIT if is_commit else _S.COMPLETE_ABORT,
        now_ms=now_ms,
        producer_id=transaction.next_producer_id if takes_next else producer_id,
        producer_epoch=0 if takes_next else producer_epoch,
        next_producer_id=NO_PRODUCER,
        partitions=frozenset(),
    )
    return Decision([record_of(transaction, record)], None)


# EndTxn.


def _decide_end_first_version(
    shard: TransactionShard, transaction: Transaction, request: EndTxnRequest, now_ms: int
) -> Decision[EndResult]:
    if transaction.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.status in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.status is _S.ONGOING:
        return _prepare(shard, transaction, _wanted(request), 0, None, now_ms)
    if transaction.status is (_S.COMPLETE_COMMIT if request.committed else _S.COMPLETE_ABORT):
        return Decision((), (transaction.producer_id, transaction.producer_epoch))
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _decide_end_second_version(
    shard: TransactionShard,
    transaction: Transaction,
    request: EndTxnRequest,
    fresh_producer_id: int | None,
    now_ms: int,
) -> Decision[EndResult]:
    status, epoch = transaction.status, transaction.producer_epoch
    if status in PREPARED:
        # Checked first: the producer may already use the next producer id, which becomes valid at completion.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_raised_the_epoch = transaction.is_second_version and status in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)
    is_repeated = has_raised_the_epoch and _is_repeated(transaction, request)
    if transaction.producer_id != request.producer_id and not is_repeated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if epoch != request.producer_epoch and not is_repeated:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_repeated:
        if status is (_S.COMPLETE_COMMIT if request.committed else _S.COMPLETE_ABORT):
            return Decision((), (transaction.producer_id, epoch))
    elif status is _S.ONGOING:
        return _prepare_or_ask(shard, transaction, _wanted(request), fresh_producer_id, now_ms)
    elif not request.committed:
        # The producer may abort a transaction that has not begun, because it cannot know that.
        return _prepare_or_ask(shard, transaction, _S.PREPARE_ABORT, fresh_producer_id, now_ms, has_begun=False)
    raise KafkaError(ErrorCode.INVALID_TXN_STATE)


def _is_repeated(transaction: Transaction, request: EndTxnRequest) -> bool:
    """True if the request is a retry of the one that ended the last transaction."""
    if transaction.producer_id == request.producer_id:
        return transaction.producer_epoch == request.producer_epoch + 1
    return (
        transaction.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_MAX - 1
        and transaction.producer_epoch == 0
    )


def _wanted(request: EndTxnRequest) -> TransactionStatus:
    return _S.PREPARE_COMMIT if request.committed else _S.PREPARE_ABORT


def _prepare_or_ask(
    shard: TransactionShard,
    transaction: Transaction,
    status: TransactionStatus,
    fresh_producer_id: int | None,
    now_ms: int,
    *,
    has_begun: bool = True,
) -> Decision[EndResult]:
    if transaction.is_exhausted and fresh_producer_id is None:
        return Decision((), None)
    return _prepare(
        shard, transaction, status, SECOND_VERSION, fresh_producer_id, now_ms, start_ms=None if has_begun else now_ms
    )


def _prepare(
    shard: TransactionShard,
    transaction: Transaction,
    status: TransactionStatus,
    client_version: int,
    fresh_producer_id: int | None,
    now_ms: int,
    *,
    start_ms: int | None = None,
) -> Decision[EndResult]:
    """The Prepare... record. The second version raises the epoch; after the last epoch follows another producer id."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    next_producer_id = NO_PRODUCER
    answer = (transaction.producer_id, epoch)
    if client_version >= SECOND_VERSION:
        if transaction.is_exhausted:
            assert fresh_producer_id is not None, "asked for before"
            next_producer_id = fresh_producer_id
        last_epoch, epoch = epoch, min(epoch + 1, EPOCH_MAX)
        answer = (transaction.producer_id, epoch) if next_producer_id == NO_PRODUCER else (next_producer_id, 0)
    record = transaction.change(
        status,
        now_ms=now_ms,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        start_ms=start_ms,
        client_version=client_version,
    )
    return Decision([record_of(transaction, record)], answer, on_settled=_settled(shard, transaction))


def _settled(shard: TransactionShard, transaction: Transaction) -> partial[None]:
    return partial(on_prepared, shard, transaction)
