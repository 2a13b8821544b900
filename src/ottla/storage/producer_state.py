"""The state of a log's producers, for idempotent and transactional writes (KIP-98).

For each producer id: its epoch, its last five batches (sequence numbers and offsets), and its open transaction. A
duplicate batch is answered with its first offset, a gap in the sequence is refused, an older epoch is fenced. `check`
decides before the append and `update` follows it, so that a failed append changes nothing. Snapshots are in
`producer_snapshot`.

A transaction is *ongoing* from its first batch to its marker, and *unreplicated* until the high watermark passes the
marker. A read-committed fetch ends at the first offset of either kind.

If transactions are verified (KIP-890), the first batch of a transaction is accepted only when the coordinator has
confirmed that the partition belongs to it. Otherwise a batch that arrives after its transaction's marker would begin a
transaction that never ends. A `Verification` is one such request. The next batch or marker removes it, so that a late
confirmation has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.control import EndTransactionMarker
from ottla.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from ottla.records.validate import AppendOrigin

__all__ = [
    "LATE_TRANSACTION_GRACE_MS",
    "CompletedTransaction",
    "ProducerBatch",
    "ProducerEntry",
    "ProducerState",
    "Verification",
    "is_expired",
]

BATCHES_KEPT = 5
"""The number of batches that an idempotent producer may have in flight."""

LATE_TRANSACTION_GRACE_MS = 300_000
"""An open transaction counts as hanging this long after the longest transaction timeout."""

_NONE = -1
_SEQUENCE_MASK = 0x7FFFFFFF
_EPOCH_MAX = 32767

# The constructor of a named tuple is a Python function, and every batch would pay for its call.
_new_tuple = tuple.__new__

# The transaction version in which every end of a transaction increments the producer's epoch (KIP-890).
_EPOCH_BUMP_VERSION = 2


class ProducerBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    is_aborted: bool


class Verification:
    """A request to the coordinator to confirm a producer's transaction in this partition."""

    __slots__ = ("epoch", "is_confirmed", "lowest_sequence", "started_ms", "supports_epoch_bump")

    def __init__(self, *, epoch: int, sequence: int, supports_epoch_bump: bool, started_ms: int) -> None:
        self.epoch = epoch
        # A batch whose verification is repeated must not be overtaken by later batches.
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.started_ms = started_ms
        self.is_confirmed = False


class ProducerEntry:
    """One producer id on one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "epoch",
        "last_timestamp",
        "may_know_less_than_log",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        epoch: int = _NONE,
        coordinator_epoch: int = _NONE,
        last_timestamp: int = _NONE,
        current_transaction_first_offset: int = _NONE,
        batches: tuple[ProducerBatch, ...] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches = batches
        # True if the entry comes from a snapshot, which has only one batch (see `recall`).
        self.may_know_less_than_log = False

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else _NONE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else _NONE

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def recall(self, older: tuple[ProducerBatch, ...] = ()) -> None:
        """Adds batches that were read from the log, which is not read again for this entry."""
        self.may_know_less_than_log = False
        self.batches = (*older, *self.batches)[-BATCHES_KEPT:]

    def copy(self) -> ProducerEntry:
        return ProducerEntry(
            self.producer_id,
            epoch=self.epoch,
            coordinator_epoch=self.coordinator_epoch,
            last_timestamp=self.last_timestamp,
            current_transaction_first_offset=self.current_transaction_first_offset,
            batches=self.batches,
        )

    def find_duplicate(self, header: BatchHeader) -> ProducerBatch | None:
        """The remembered batch with the same epoch and the same sequence numbers."""
        if header.producer_epoch == self.epoch and header.base_sequence != _NONE:
            last_sequence = (header.base_sequence + header.last_offset_delta) & _SEQUENCE_MASK
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == header.last_offset_delta:
                    return batch
        return None

    def is_next(self, header: BatchHeader) -> bool:
        """True if the batch directly follows the last batch. Then no other check is needed.

        The batch cannot be a duplicate of a stored batch, because the stored batches do not cover all sequence numbers.
        """
        batches = self.batches
        attributes = header.attributes
        last_sequence = batches[-1][0] if batches else _NONE
        return (
            header.producer_epoch == self.epoch
            and last_sequence != _NONE
            and header.base_sequence == (last_sequence + 1) & _SEQUENCE_MASK
            and not attributes & CONTROL_BIT
            and (attributes & TRANSACTIONAL_BIT > 0) == (self.current_transaction_first_offset >= 0)
        )

    def check(self, header: BatchHeader, origin: AppendOrigin) -> None:
        """Raises if this cannot be the producer's next batch."""
        if header.producer_epoch < self.epoch and origin is not AppendOrigin.REPLICATION:
            raise _old_epoch(self.producer_id, header.producer_epoch, self.epoch)
        if header.is_control:
            return
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(header)
        if self.current_transaction_first_offset >= 0 and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {self.producer_id} wrote outside its open transaction at offset {header.base_offset}",
            )

    def add(self, header: BatchHeader) -> None:
        """The batch was appended."""
        if header.producer_epoch != self.epoch:
            self.epoch = header.producer_epoch
            self.batches = ()
        delta, timestamp = header.last_offset_delta, header.max_timestamp
        fields = (header.last_sequence, header.base_offset + delta, delta, timestamp)
        self.batches = (*self.batches[1 - BATCHES_KEPT :], _new_tuple(ProducerBatch, fields))
        self.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_BIT and self.current_transaction_first_offset < 0:
            self.current_transaction_first_offset = header.base_offset

    def _check_sequence(self, header: BatchHeader) -> None:
        sequence = header.base_sequence
        if header.producer_epoch != self.epoch:
            # A new epoch begins with sequence 0. If retention has deleted the producer's records, its state is unknown,
            # and any sequence may come next.
            if sequence != 0 and self.epoch != _NONE:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {self.producer_id} began epoch {header.producer_epoch} with sequence {sequence} "
                    f"instead of 0 (last epoch {self.epoch})",
                )
            return
        last = self.last_sequence
        if sequence != (0 if last == _SEQUENCE_MASK else last + 1):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {self.producer_id} sent sequence {sequence} after {last}",
            )


class ProducerState:
    """All producers of one log."""

    __slots__ = ("_ongoing", "_producers", "_unreplicated", "_verifications", "verifies_transactions")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        # Producer id -> transaction whose first batch waits for the coordinator's confirmation.
        self._verifications: dict[int, Verification] = {}
        # `transaction.partition.verification.enable`, where clients write to this log.
        self.verifies_transactions = False
        # First offset of each open transaction -> producer id, in the order of offsets, which is insertion order.
        self._ongoing: dict[int, int] = {}
        # First offset -> offset of the marker, for transactions that ended above the high watermark.
        self._unreplicated: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def entries(self) -> Iterator[ProducerEntry]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def load(self, entry: ProducerEntry) -> None:
        """Adds an entry of a snapshot."""
        entry.may_know_less_than_log = True
        self._producers[entry.producer_id] = entry
        if entry.current_transaction_first_offset >= 0:
            self._ongoing[entry.current_transaction_first_offset] = entry.producer_id
            self._ongoing = dict(sorted(self._ongoing.items()))

    def set_verification(self, *, is_enabled: bool) -> None:
        """Applies `transaction.partition.verification.enable`."""
        self.verifies_transactions = is_enabled

    def begin_verification(
        self, producer_id: int, *, epoch: int, sequence: int, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """The verification that this batch needs before it may be appended; None if it needs none."""
        entry = self._producers.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch:
                raise _old_epoch(producer_id, epoch, entry.epoch)
            if entry.epoch == epoch and entry.current_transaction_first_offset >= 0:
                return None
        verification = self._verifications.get(producer_id)
        if verification is None or verification.epoch < epoch:
            verification = self._verifications[producer_id] = Verification(
                epoch=epoch, sequence=sequence, supports_epoch_bump=supports_epoch_bump, started_ms=now_ms
            )
        elif verification.epoch > epoch:
            # The producer has a newer epoch, so the coordinator would not confirm this one.
            raise _old_epoch(producer_id, epoch, verification.epoch)
        elif sequence < verification.lowest_sequence:
            verification.lowest_sequence = sequence
        return verification

    def confirm(self, producer_id: int, verification: Verification) -> None:
        """The coordinator has confirmed the transaction. Nothing happens if the transaction has ended since."""
        if self._verifications.get(producer_id) is verification:
            verification.is_confirmed = True

    def refuse(self, producer_id: int, verification: Verification) -> None:
        """The coordinator has rejected the transaction for good."""
        if self._verifications.get(producer_id) is verification:
            del self._verifications[producer_id]

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self._producers.get(producer_id)
        return entry is not None and entry.current_transaction_first_offset >= 0 and entry.epoch == epoch

    def check_in_transaction(self, producer_id: int, epoch: int) -> Verification | None:
        """Raises unless the producer's transaction is open here, or its coordinator has confirmed it.

        Returns the verification if the transaction is about to begin; None if it is open or needs no verification.
        """
        entry = self._producers.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch:
                raise _old_epoch(producer_id, epoch, entry.epoch)
            if entry.current_transaction_first_offset >= 0 and entry.epoch == epoch:
                return None
        verification = self._verifications.get(producer_id)
        if self.verifies_transactions and (
            verification is None or not verification.is_confirmed or verification.epoch != epoch
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {producer_id} has no open transaction in this partition that its coordinator has confirmed",
            )
        return verification

    def check(self, header: BatchHeader, origin: AppendOrigin) -> ProducerBatch | None:
        """Returns None if the batch may be appended, or the earlier batch if it is a duplicate. Raises KafkaError."""
        entry = self._producers.get(header.producer_id)
        if entry is not None and origin is AppendOrigin.CLIENT:
            if entry.is_next(header):
                return None
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        if header.attributes & TRANSACTIONAL_BIT and not header.attributes & CONTROL_BIT:
            self._check_verified(header, origin, entry)
        if entry is not None:
            entry.check(header, origin)
        return None

    def _check_verified(self, header: BatchHeader, origin: AppendOrigin, entry: ProducerEntry | None) -> None:
        producer_id = header.producer_id
        verification = self.check_in_transaction(producer_id, header.producer_epoch)
        sequence = header.base_sequence
        if verification is None or origin is not AppendOrigin.CLIENT or sequence == 0:
            return
        if verification.supports_epoch_bump and (entry is None or not entry.batches):
            # With a new epoch for each transaction, no earlier batch can exist in this epoch.
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} began its transaction with sequence {sequence} instead of 0",
            )
        if sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {sequence} while {verification.lowest_sequence} is awaited",
            )

    def check_all(self, headers: list[BatchHeader], origin: AppendOrigin) -> ProducerBatch | None:
        """`check` for several batches of one append, in their order."""
        working: dict[int, ProducerEntry] = {}
        for header in headers:
            if header.producer_id < 0:
                continue
            entry = working.get(header.producer_id)
            if entry is None:
                stored = self._producers.get(header.producer_id)
                entry = working[header.producer_id] = (
                    ProducerEntry(header.producer_id) if stored is None else stored.copy()
                )
            if origin is AppendOrigin.CLIENT:
                duplicate = entry.find_duplicate(header)
                if duplicate is not None:
                    return duplicate
            entry.check(header, origin)
            if not header.is_control:
                entry.add(header)
        return None

    def check_end(
        self, producer_id: int, *, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Raises unless a coordinator may end the producer's transaction with this epoch.

        From transaction version 2 on, a marker has a higher epoch than the batches of its transaction, so that a marker
        of an earlier transaction cannot end a later one (KIP-890). A repeated marker is accepted, because the first
        response may have been lost.
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        is_repeated = producer_epoch == entry.epoch and (
            entry.current_transaction_first_offset < 0 or producer_epoch == _EPOCH_MAX
        )
        is_old = producer_epoch < entry.epoch
        if transaction_version >= _EPOCH_BUMP_VERSION:
            is_old = producer_epoch <= entry.epoch and not is_repeated
        if is_old:
            raise _old_epoch(producer_id, producer_epoch, entry.epoch)
        if entry.coordinator_epoch > coordinator_epoch:
            raise _fenced_coordinator(producer_id, coordinator_epoch, entry.coordinator_epoch)

    def check_marker(self, header: BatchHeader, marker: EndTransactionMarker) -> None:
        """Raises if the marker comes from a former coordinator."""
        entry = self._producers.get(header.producer_id)
        if entry is not None and entry.coordinator_epoch > marker.coordinator_epoch:
            raise _fenced_coordinator(header.producer_id, marker.coordinator_epoch, entry.coordinator_epoch)

    def update(self, header: BatchHeader) -> None:
        """A data batch of a producer was appended."""
        entry = self._producers.get(header.producer_id)
        if entry is None:
            entry = self._producers[header.producer_id] = ProducerEntry(header.producer_id)
        had_transaction = entry.current_transaction_first_offset >= 0
        entry.add(header)
        if not had_transaction and entry.current_transaction_first_offset >= 0:
            self._ongoing[entry.current_transaction_first_offset] = header.producer_id
            self._verifications.pop(header.producer_id, None)

    def update_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, timestamp: int
    ) -> CompletedTransaction | None:
        """A marker was appended. Returns the transaction that it ended, if there was one."""
        self._verifications.pop(header.producer_id, None)
        entry = self._producers.get(header.producer_id)
        if entry is None:
            entry = self._producers[header.producer_id] = ProducerEntry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.batches = ()
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.current_transaction_first_offset
        if first_offset < 0:
            return None
        entry.current_transaction_first_offset = _NONE
        return CompletedTransaction(header.producer_id, first_offset, header.base_offset, not marker.is_commit)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset after the end of this transaction."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        producer_id = self._ongoing.pop(completed.first_offset, None)
        assert producer_id == completed.producer_id, f"{completed} was never begun"
        self._unreplicated[completed.first_offset] = completed.last_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of an ongoing or unreplicated transaction."""
        if not self._ongoing and not self._unreplicated:
            return None
        ongoing = next(iter(self._ongoing), None)
        unreplicated = min(self._unreplicated) if self._unreplicated else None
        if ongoing is None or (unreplicated is not None and unreplicated < ongoing):
            return unreplicated
        return ongoing

    def has_late_transaction(self, now_ms: int, *, timeout_ms_max: int) -> bool:
        """True if the oldest open transaction hangs (KIP-664): it is older than any coordinator allows.

        The coordinator has some extra time to abort it.
        """
        oldest = next(iter(self._ongoing.values()), None)
        entry = None if oldest is None else self._producers.get(oldest)
        return entry is not None and now_ms - entry.last_timestamp > timeout_ms_max + LATE_TRANSACTION_GRACE_MS

    @property
    def has_unreplicated(self) -> bool:
        return bool(self._unreplicated)

    def on_high_watermark(self, offset: int) -> None:
        for first_offset in [first for first, marker in self._unreplicated.items() if marker < offset]:
            del self._unreplicated[first_offset]

    def on_log_start_offset(self, offset: int) -> None:
        self.on_high_watermark(offset)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers that were idle for `producer.id.expiration.ms` and have no open transaction."""
        expired = [entry.producer_id for entry in self._producers.values() if is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.started_ms >= expiration_ms:
                del self._verifications[producer_id]
        return len(expired)

    def clear(self, end_offset: int) -> None:
        self._producers.clear()
        self._verifications.clear()
        self._ongoing.clear()
        # Snapshots do not contain unreplicated transactions, so the known ones are kept.
        self._unreplicated = {first: marker for first, marker in self._unreplicated.items() if marker < end_offset}


def is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    return entry.current_transaction_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms


def _old_epoch(producer_id: int, epoch: int, latest: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} wrote with epoch {epoch}, but epoch {latest} has been seen",
    )


def _fenced_coordinator(producer_id: int, epoch: int, latest: int) -> KafkaError:
    return KafkaError(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        f"The marker for producer {producer_id} comes from coordinator epoch {epoch}, but epoch {latest} has been seen",
    )
