"""Transactional appends: the first batch of a transaction waits until its coordinator has confirmed it.

A transactional batch without an open transaction in the partition may be late: its transaction may have ended long ago,
and no coordinator would ever end the transaction that it would begin (KIP-890). So the coordinator is asked whether the
partition belongs to the transaction; for clients from produce version 12 on the same request adds the partition. Later
batches find the transaction open in the log and are appended at once.

Until the coordinator has answered, batches of the same producer for the same partition queue behind the first one,
because sequence numbers depend on the order. Other producers do not wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.header import HEADER_SIZE, MAGIC, MAGIC_POSITION, PRODUCER, PRODUCER_POSITION
from ottla.replica.appends import APPENDS_WAITING_MAX, append
from ottla.replica.validations import NO_CLIENT, VALIDATION_MS_MAX, ProducingClient, Validations

if TYPE_CHECKING:
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult
    from ottla.storage.producer_state import Verification

__all__ = [
    "Transaction",
    "TransactionVerifier",
    "TransactionalAppends",
    "UnconfirmedTransaction",
    "late_transactions",
    "meaning_for_producer",
]

# Errors of finding and asking the coordinator. Old producers would not retry a batch for these codes. They do retry for
# the code that they get instead, and without refreshing their metadata.
_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Transaction(NamedTuple):
    """The transaction of a produce request."""

    transactional_id: str
    adds_partitions: bool
    """The broker adds partitions to the transaction for the client (transaction version 2)."""
    knows_abortable: bool
    """The client knows TRANSACTION_ABORTABLE."""


class UnconfirmedTransaction(KafkaError):
    """The batch did not reach the log: its coordinator did not confirm it, or its producer has a newer epoch."""


class TransactionVerifier(Protocol):
    """Asks a transaction's coordinator."""

    @property
    def is_enabled(self) -> bool:
        """`transaction.partition.verification.enable`."""

    def ask(
        self, transaction: Transaction, *, producer_id: int, producer_epoch: int, topic: str, index: int
    ) -> Deferred[ErrorCode]:
        """NONE if the partition belongs to the transaction. The `Deferred` itself never fails."""


def meaning_for_producer(code: ErrorCode, transaction: Transaction) -> KafkaError:
    """The error for a producer whose batch the coordinator did not confirm."""
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not transaction.adds_partitions):
        return UnconfirmedTransaction(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"The coordinator could not be asked about the transaction: {code.name}."
        )
    if code is ErrorCode.INVALID_TXN_STATE:
        return UnconfirmedTransaction(code, "The partition does not belong to the transaction.")
    return UnconfirmedTransaction(code)


def late_transactions(partitions: Iterable[Partition], now_ms: int, *, timeout_ms_max: int) -> int:
    """The number of led partitions with a hanging transaction, which blocks read-committed consumers (KIP-664)."""
    return sum(
        partition.is_leader
        and partition.log.producers.state.has_late_transaction(now_ms, timeout_ms_max=timeout_ms_max)
        for partition in partitions
    )


class TransactionalAppends:
    """All transactional batches of a broker that wait for their coordinator."""

    __slots__ = ("_queues", "_validations", "_verifier")

    def __init__(self, verifier: TransactionVerifier, validations: Validations) -> None:
        self._verifier = verifier
        self._validations = validations
        self._queues: dict[tuple[Partition, int], _Queue] = {}

    def append(
        self,
        partition: Partition,
        records: memoryview,
        *,
        transaction: Transaction,
        required_acks: int,
        now_ms: int,
        api_version: int,
        timeout_ms: int = VALIDATION_MS_MAX,
        client: ProducingClient = NO_CLIENT,
    ) -> AppendResult | Deferred[AppendResult]:
        """`appends.append` for a transactional batch. Raises KafkaError if it is refused at once."""
        if len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
            raise KafkaError(ErrorCode.INVALID_RECORD, "Transactional records need record batches of magic 2.")

        def write() -> AppendResult | Deferred[AppendResult]:
            return append(
                partition,
                records,
                required_acks=required_acks,
                now_ms=now_ms,
                api_version=api_version,
                validations=self._validations,
                timeout_ms=timeout_ms,
                client=client,
            )

        # Set for batches of an open transaction, too: a marker may end it while the batch waits for its validation.
        partition.log.producers.state.set_verification(is_enabled=self._verifier.is_enabled)
        if self.has_begun(partition, records):
            return write()
        producer_id, epoch, sequence = PRODUCER.unpack_from(records, PRODUCER_POSITION)
        queue = self._queues.get((partition, producer_id))
        pending = _Pending(transaction, epoch, sequence, now_ms, write)
        if queue is None:
            partition.check_leader()
            verification = self._begin(partition, producer_id, pending)
            if verification is None or verification.is_confirmed:
                return write()
            queue = self._queues[partition, producer_id] = _Queue(self, partition, producer_id)
        return queue.add(pending)

    def has_begun(self, partition: Partition, records: memoryview) -> bool:
        """True if a batch can be appended: its transaction is open, and no batch of its producer is queued."""
        if len(records) < HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
            return False
        producer_id, epoch, _ = PRODUCER.unpack_from(records, PRODUCER_POSITION)
        return (partition, producer_id) not in self._queues and partition.log.producers.state.is_in_transaction(
            producer_id, epoch
        )

    def verify(
        self, partition: Partition, transaction: Transaction, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Deferred[None]:
        """For records that this broker appends in a transaction: resolves when they may be appended.

        Fails with the coordinator's error.
        """
        pending = _Pending(transaction, producer_epoch, -1, now_ms, _write_by_caller)
        try:
            partition.check_leader()
            verification = self._begin(partition, producer_id, pending)
        except KafkaError as error:
            return Deferred.failed(error)
        if verification is None or verification.is_confirmed:
            return Deferred.resolved(None)
        begun = verification

        def on_answer(code: ErrorCode) -> Deferred[None]:
            if code is not ErrorCode.NONE:
                _note_refusal(partition, producer_id, begun, code)
                return Deferred.failed(KafkaError(code))
            partition.log.producers.state.confirm(producer_id, begun)
            if begun.is_confirmed:
                return Deferred.resolved(None)
            # A marker was appended before the coordinator's response.
            return self.verify(
                partition, transaction, producer_id=producer_id, producer_epoch=producer_epoch, now_ms=now_ms
            )

        return self.ask(partition, producer_id, pending).and_then(on_answer)

    def _begin(self, partition: Partition, producer_id: int, pending: _Pending) -> Verification | None:
        state = partition.log.producers.state
        state.set_verification(is_enabled=self._verifier.is_enabled)
        if not state.verifies_transactions and not pending.transaction.adds_partitions:
            return None
        try:
            return state.begin_verification(
                producer_id,
                epoch=pending.epoch,
                sequence=pending.sequence,
                supports_epoch_bump=pending.transaction.adds_partitions,
                now_ms=pending.now_ms,
            )
        except KafkaError as error:
            raise UnconfirmedTransaction(error.code, error.message) from None

    def ask(self, partition: Partition, producer_id: int, pending: _Pending) -> Deferred[ErrorCode]:
        return self._verifier.ask(
            pending.transaction,
            producer_id=producer_id,
            producer_epoch=pending.epoch,
            topic=partition.topic,
            index=partition.index,
        )

    def forget(self, queue: _Queue) -> None:
        del self._queues[queue.partition, queue.producer_id]


class _Pending:
    __slots__ = ("epoch", "now_ms", "result", "sequence", "transaction", "write")

    def __init__(
        self,
        transaction: Transaction,
        epoch: int,
        sequence: int,
        now_ms: int,
        write: Callable[[], AppendResult | Deferred[AppendResult]],
    ) -> None:
        self.transaction = transaction
        self.epoch = epoch
        self.sequence = sequence
        self.now_ms = now_ms
        self.write = write
        self.result: Deferred[AppendResult] = Deferred()


class _Queue:
    """The queued batches of one producer for one partition, in order of arrival."""

    __slots__ = ("_appends", "_is_asking", "_waiting", "partition", "producer_id")

    def __init__(self, appends: TransactionalAppends, partition: Partition, producer_id: int) -> None:
        self._appends = appends
        self.partition = partition
        self.producer_id = producer_id
        self._waiting: deque[_Pending] = deque()
        self._is_asking = False

    def add(self, pending: _Pending) -> Deferred[AppendResult]:
        if len(self._waiting) >= APPENDS_WAITING_MAX:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{APPENDS_WAITING_MAX} batches already wait for the transaction coordinator.",
            )
        self._waiting.append(pending)
        if len(self._waiting) == 1 and not self._is_asking:
            self._advance()
        return pending.result

    def _advance(self) -> None:
        """Appends queued batches, up to the next one that the coordinator has to confirm."""
        waiting = self._waiting
        # A completed append may bring in the next request, which is added to this queue.
        self._is_asking = True
        while waiting:
            pending = waiting[0]
            try:
                verification = self._appends._begin(self.partition, self.producer_id, pending)
                if verification is not None and not verification.is_confirmed:
                    verified = self._appends.ask(self.partition, self.producer_id, pending)
                    verified.when_done(lambda done, of=verification: self._on_answer(of, done.result()))  # type: ignore[misc]
                    return
                outcome = pending.write()
            except Exception as error:  # noqa: BLE001 - otherwise the queue of this producer would stop
                waiting.popleft()
                pending.result.fail(error)
                continue
            waiting.popleft()
            if isinstance(outcome, Deferred):
                outcome.pass_to(pending.result)
            else:
                pending.result.resolve(outcome)
        self._appends.forget(self)

    def _on_answer(self, verification: Verification, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            # If a marker was appended before this response, nothing changes, and the coordinator is asked again: it may
            # be the marker of this transaction, or only that of the previous one, which had a lower epoch.
            self.partition.log.producers.state.confirm(self.producer_id, verification)
            if not verification.is_confirmed and not verification.supports_epoch_bump:
                # With one epoch for all transactions, this transaction cannot be distinguished from the next.
                code = ErrorCode.INVALID_TXN_STATE
        if code is not ErrorCode.NONE:
            _note_refusal(self.partition, self.producer_id, verification, code)
            refused = [pending for pending in self._waiting if pending.epoch == verification.epoch]
            self._waiting = deque(pending for pending in self._waiting if pending.epoch != verification.epoch)
            for pending in refused:
                pending.result.fail(meaning_for_producer(code, pending.transaction))
        self._advance()


def _note_refusal(partition: Partition, producer_id: int, verification: Verification, code: ErrorCode) -> None:
    if code not in _RETRIABLE and code is not ErrorCode.CONCURRENT_TRANSACTIONS:
        partition.log.producers.state.refuse(producer_id, verification)


def _write_by_caller() -> AppendResult:
    raise AssertionError("the caller writes")
