"""One transactional id: who may use it, and how far its transaction is.

`Transaction` is changed by `apply` alone, with a record of the log. Decisions make the next record with `change`, which
takes over whatever is not named, as each record of `__transaction_state` holds everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.txn.states import PREPARED, TRANSITIONS, ImpossibleTransition, TransactionStatus
from ottla.model.ids import TopicPartition
from ottla.wire.messages.transaction_records import PartitionsSchema, TransactionLogValue

__all__ = ["EPOCH_MAX", "NO_EPOCH", "NO_PRODUCER", "Transaction", "TransactionRecord", "is_exhausted"]

NO_PRODUCER = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_MAX = 32767
# Transactions that never time out: a coordinator outside decides them (KIP-939).
TIMEOUT_NEVER_MS = (1 << 31) - 1

# Versions of the client's side of a transaction; from the second on each end raises the epoch (KIP-890).
SECOND_VERSION = 2

# Steps that are remembered for the message of a transition that should never have been tried.
HISTORY_MAX = 8


def is_exhausted(producer_epoch: int) -> bool:
    """The highest epoch is never a client's, so that the coordinator can always fence the one it gave."""
    return producer_epoch >= EPOCH_MAX - 1


class TransactionRecord(TransactionLogValue):
    """A record, and what a coordinator knows only as long as it lives: the epoch before a bump the client asked for.

    With it a repeated InitProducerId is told from a stranger's (KIP-360). Kafka does not write it down either.
    """

    __slots__ = ("last_producer_epoch",)

    last_producer_epoch: int


class Transaction:
    __slots__ = (
        "client_version",
        "history",
        "last_producer_epoch",
        "last_update_ms",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "status",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, *, producer_id: int = NO_PRODUCER) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.previous_producer_id = NO_PRODUCER
        # Set while a prepared transaction uses up the last epoch: the id that its producer has from then on.
        self.next_producer_id = NO_PRODUCER
        self.producer_epoch = NO_EPOCH
        self.last_producer_epoch = NO_EPOCH
        self.timeout_ms = 0
        self.status = TransactionStatus.EMPTY
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.start_ms = NO_TIME
        self.last_update_ms = NO_TIME
        self.client_version = 0
        self.history: list[str] = []

    @property
    def is_second_version(self) -> bool:
        return self.client_version >= SECOND_VERSION

    @property
    def is_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def may_time_out(self) -> bool:
        return self.timeout_ms != TIMEOUT_NEVER_MS

    def change(
        self,
        status: TransactionStatus,
        *,
        now_ms: int,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        last_producer_epoch: int | None = None,
        next_producer_id: int | None = None,
        timeout_ms: int | None = None,
        partitions: frozenset[TopicPartition] | None = None,
        start_ms: int | None = None,
        client_version: int | None = None,
    ) -> TransactionRecord:
        """The record of a step; what is not given stays as it is."""
        self.check(status)
        members = self.partitions if partitions is None else partitions
        record = TransactionRecord(
            producer_id=self.producer_id if producer_id is None else producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=self.next_producer_id if next_producer_id is None else next_producer_id,
            producer_epoch=self.producer_epoch if producer_epoch is None else producer_epoch,
            transaction_timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            transaction_status=status,
            transaction_partitions=None if status is TransactionStatus.EMPTY else _by_topic(members),
            transaction_last_update_timestamp_ms=now_ms,
            transaction_start_timestamp_ms=self.start_ms if start_ms is None else start_ms,
            client_transaction_version=self.client_version if client_version is None else client_version,
        )
        record.last_producer_epoch = self.last_producer_epoch if last_producer_epoch is None else last_producer_epoch
        assert record.producer_id >= 0, self._told(status)
        assert 0 <= record.producer_epoch <= EPOCH_MAX, self._told(status)
        return record

    def as_record(self) -> TransactionRecord:
        """What was last written, to be written again."""
        record = TransactionRecord(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.status,
            transaction_partitions=None if self.status is TransactionStatus.EMPTY else _by_topic(self.partitions),
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )
        record.last_producer_epoch = self.last_producer_epoch
        return record

    def is_repeated_by(self, value: TransactionLogValue) -> bool:
        """True if the record says what the last one said: a prepared transaction is written again after a load."""
        return (
            value.transaction_status == self.status
            and value.producer_id == self.producer_id
            and value.producer_epoch == self.producer_epoch
            and value.transaction_last_update_timestamp_ms == self.last_update_ms
        )

    def check(self, status: TransactionStatus) -> None:
        """Raises when the step is impossible, with the story that led here."""
        if status not in TRANSITIONS[self.status]:
            raise ImpossibleTransition(self._told(status))

    def apply(self, value: TransactionLogValue) -> None:
        self.status = status = TransactionStatus(value.transaction_status)
        self.producer_id = value.producer_id
        self.previous_producer_id = value.previous_producer_id
        self.next_producer_id = value.next_producer_id
        self.producer_epoch = value.producer_epoch
        self.last_producer_epoch = value.last_producer_epoch if isinstance(value, TransactionRecord) else NO_EPOCH
        self.timeout_ms = value.transaction_timeout_ms
        self.partitions = frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        )
        self.start_ms = value.transaction_start_timestamp_ms
        self.last_update_ms = value.transaction_last_update_timestamp_ms
        self.client_version = value.client_transaction_version
        self.history.append(f"{status.name}({self.producer_id}/{self.producer_epoch} at {self.last_update_ms})")
        if len(self.history) > HISTORY_MAX:
            del self.history[0]

    def invariants(self) -> None:
        status, story = self.status, " -> ".join(self.history)
        assert status is not TransactionStatus.PREPARE_EPOCH_FENCE, f"never written: {story}"
        assert self.producer_id >= 0, story
        assert -1 <= self.producer_epoch <= EPOCH_MAX, story
        has_begun = status in (TransactionStatus.ONGOING, *PREPARED)
        assert has_begun or not self.partitions, f"partitions without a transaction: {story}"
        assert status in PREPARED or self.next_producer_id == NO_PRODUCER, f"a next producer id too late: {story}"

    def _told(self, status: TransactionStatus) -> str:
        return f"{self.transactional_id}: {' -> '.join(self.history) or 'new'} -> {status.name}"


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
