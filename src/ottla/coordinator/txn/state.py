"""The state of one partition of `__transaction_state`: the transactional ids that belong to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.runtime import CoordinatorRecord
from ottla.coordinator.txn.states import PREPARED, TransactionStatus
from ottla.coordinator.txn.transaction import Transaction
from ottla.decisions import Decide, Decision, Timers
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig

__all__ = ["TransactionContext", "TransactionDecide", "TransactionShard", "record_of", "submit_again_later"]

R = TypeVar("R")

RETRY_MS = 100


class TransactionContext:
    """Shared by all shards: settings, metadata, and the sender of markers."""

    __slots__ = ("aborts", "commits", "config", "forget_markers", "image", "send_markers")

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        *,
        send_markers: Callable[[TransactionShard, Transaction], object],
        forget_markers: Callable[[int], object],
    ) -> None:
        self.config = config
        self.image = image
        # Called after the commit of a Prepare... record. After the last marker a decision completes the transaction.
        self.send_markers = send_markers
        # Called with the index of a shard that is closed.
        self.forget_markers = forget_markers
        # Transactions that ended in this process.
        self.commits = 0
        self.aborts = 0

    @property
    def transaction_version(self) -> int:
        """The level of the feature `transaction.version` (KIP-1022)."""
        return self.image.features.finalized.get("transaction.version", 0)


class TransactionShard:
    """Changed by `replay` alone."""

    __slots__ = ("context", "index", "is_loaded", "ongoing", "timers", "transactions", "waiting")

    def __init__(self, index: int, timers: Timers[TransactionShard], context: TransactionContext) -> None:
        self.index = index
        self.timers = timers
        self.context = context
        self.transactions: dict[str, Transaction] = {}
        # The ids with an open transaction, which may time out.
        self.ongoing: dict[str, None] = {}
        # Callbacks for the end of a prepared transaction, by id.
        self.waiting: dict[str, list[Callable[[], object]]] = {}
        self.is_loaded = False

    def transaction(self, transactional_id: str) -> Transaction:
        """Raises INVALID_PRODUCER_ID_MAPPING for an unknown id."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def resume(self, transactional_id: str) -> None:
        """Writes the record of a prepared transaction again, and sends its markers after the commit.

        A record that was loaded, or that timed out, may not be committed: the next leader might not have it.
        """
        self.timers.schedule(("resume", transactional_id), 0, partial(_decide_resume, transactional_id))

    def wake_at_end(self, transactional_id: str, wake: Callable[[], object], *, waiting_max: int) -> bool:
        """Calls `wake` when the prepared transaction is finished; False if too many wait for that already."""
        waiting = self.waiting.setdefault(transactional_id, [])
        if len(waiting) >= waiting_max:
            return False
        waiting.append(wake)
        return True

    # The runtime's side.

    def replay(self, key: Message, value: Message | None, producer_id: int = -1) -> None:  # noqa: ARG002
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        transaction = self.transactions.get(transactional_id)
        if value is None:
            if transaction is not None:
                if self.is_loaded:
                    transaction.check(TransactionStatus.DEAD)
                del self.transactions[transactional_id]
            self.ongoing.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        if transaction is None:
            transaction = self.transactions[transactional_id] = Transaction(transactional_id)
        elif self.is_loaded and not transaction.is_repeated_by(value):
            # During a load steps may be missing, because compaction removed them.
            transaction.check(TransactionStatus(value.transaction_status))
        transaction.apply(value)
        if self.is_loaded:
            self._count(transaction.status)
        if transaction.status is TransactionStatus.ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)
        if transaction.status not in PREPARED and transactional_id in self.waiting:
            for wake in self.waiting.pop(transactional_id):
                wake()

    def _count(self, status: TransactionStatus) -> None:
        if status is TransactionStatus.COMPLETE_COMMIT:
            self.context.commits += 1
        elif status is TransactionStatus.COMPLETE_ABORT:
            self.context.aborts += 1

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Does nothing: no record of this topic belongs to a transaction."""

    def on_loaded(self, now_ms: int) -> None:  # noqa: ARG002
        self.is_loaded = True
        for transaction in self.transactions.values():
            if transaction.status in PREPARED:
                self.resume(transaction.transactional_id)

    def on_unloaded(self) -> None:
        self.context.forget_markers(self.index)
        waiting, self.waiting = self.waiting, {}
        for wakes in waiting.values():
            for wake in wakes:
                wake()

    def invariants(self) -> None:
        for transactional_id, transaction in self.transactions.items():
            assert transaction.transactional_id == transactional_id
            transaction.invariants()
            is_open = transaction.status is TransactionStatus.ONGOING
            assert is_open == (transactional_id in self.ongoing), f"{transactional_id}: {transaction.status.name}"
        assert self.ongoing.keys() <= self.transactions.keys()
        for transactional_id in self.waiting:
            assert self.transactions[transactional_id].status in PREPARED, f"{transactional_id} waits for no markers"


TransactionDecide = Decide[TransactionShard, R]


def record_of(transaction: Transaction, value: TransactionLogValue) -> CoordinatorRecord:
    return TransactionLogKey(transactional_id=transaction.transactional_id), value


def on_prepared(shard: TransactionShard, transaction: Transaction, error: KafkaError | None) -> None:
    """Sends the markers after the commit of a Prepare... record; after an error it is written again."""
    if transaction.status not in PREPARED or shard.timers.submit is None:
        # The record was refused, or another broker now coordinates the transaction.
        return
    if error is None:
        shard.context.send_markers(shard, transaction)
    else:
        submit_again_later(
            shard, ("resume", transaction.transactional_id), partial(_decide_resume, transaction.transactional_id)
        )


def submit_again_later(shard: TransactionShard, key: object, decide: TransactionDecide[None]) -> None:
    if shard.timers.submit is not None:
        shard.timers.schedule_if_absent(key, RETRY_MS, decide)


def _decide_resume(transactional_id: str, shard: TransactionShard, _now_ms: int) -> Decision[None]:
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.status not in PREPARED:
        return Decision((), None)
    record = record_of(transaction, transaction.as_record())
    return Decision([record], None, on_settled=partial(on_prepared, shard, transaction))
