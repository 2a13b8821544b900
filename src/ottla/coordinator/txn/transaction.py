"""One transactional id: its producer, and the state of its transaction.

Only `apply` changes a `Transaction`, with a record of the log. Decisions make the next record with `change`, which
copies the fields that are not given: each record of `__transaction_state` holds the whole state of an id.
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
# The timeout of transactions that an external coordinator ends (KIP-939): they never time out.
TIMEOUT_NEVER_MS = (1 << 31) - 1

# From this version of the client on, each end of a transaction raises the epoch (KIP-890).
SECOND_VERSION = 2

# Transitions kept for the message of `ImpossibleTransition`.
HISTORY_MAX = 8


def is_exhausted(producer_epoch: int) -> bool:
    """Clients never get the highest epoch, so that the coordinator can always fence them."""
    return producer_epoch >= EPOCH_MAX - 1


class TransactionRecord(TransactionLogValue):
    """A record, and the epoch before a bump that the client asked for, which is only in memory.

    The epoch distinguishes a repeated InitProducerId from another producer's (KIP-360). Kafka does not store it either.
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
        # The next producer id, set while a prepared transaction has the last epoch.
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
        """The record of a transition; fields that are not given stay as they are."""
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
        assert record.producer_id >= 0, self._story(status)
        assert 0 <= record.producer_epoch <= EPOCH_MAX, self._story(status)
        return record

    def as_record(self) -> TransactionRecord:
        """The last record, to be written again."""
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
        """True if the record equals the last record: a prepared transaction is written again after a load."""
        return (
            value.transaction_status == self.status
            and value.producer_id == self.producer_id
            and value.producer_epoch == self.producer_epoch
            and value.transaction_last_update_timestamp_ms == self.last_update_ms
        )

    def check(self, status: TransactionStatus) -> None:
        """Raises ImpossibleTransition, with the last transitions."""
        if status not in TRANSITIONS[self.status]:
            raise ImpossibleTransition(self._story(status))

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

    def _story(self, status: TransactionStatus) -> str:
        return f"{self.transactional_id}: {' -> '.join(self.history) or 'new'} -> {status.name}"


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
