"""What a read-committed consumer may see: the last stable offset and the list of aborted transactions, case by case."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.storage import lookups
from ottla.storage.transaction_index import AbortedTransaction
from tests.unit.storage.helpers import LogBench, batch


def begin(bench: LogBench, producer_id: int, *, sequence: int = 0) -> int:
    """Writes a record of a transaction and returns its offset."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "sequence": sequence}
    return bench.append(b"t", transactional=True, **fields).first_offset


def aborted(bench: LogBench, start: int, end: int) -> list[AbortedTransaction]:
    return lookups.aborted_transactions(bench.log.segments, start, end)


def test_a_transaction_that_ended_does_not_hide_an_older_open_one(bench: LogBench) -> None:
    begin(bench, 1)
    begin(bench, 2)
    bench.end_transaction(2, commit=True)
    # The marker is not replicated, and the older transaction is open.
    assert bench.log.first_unstable_offset == 0
    bench.advance_high_watermark()
    assert bench.log.first_unstable_offset == bench.log.last_stable_offset == 0


def test_a_transaction_is_stable_when_its_marker_is_replicated(bench: LogBench) -> None:
    begin(bench, 1)
    marker = bench.end_transaction(1, commit=True).last_offset
    bench.log.update_high_watermark(marker)
    assert bench.log.last_stable_offset == 0
    bench.log.update_high_watermark(marker + 1)
    assert bench.log.last_stable_offset == marker + 1


def test_nothing_above_the_high_watermark_is_stable(bench: LogBench) -> None:
    bench.append(b"committed")
    bench.advance_high_watermark()
    bench.append(b"not committed yet")
    begin(bench, 1)
    assert (bench.log.high_watermark, bench.log.first_unstable_offset) == (1, 2)
    assert bench.log.last_stable_offset == 1


def test_the_oldest_open_transaction_counts_after_a_restart(bench: LogBench) -> None:
    # A snapshot has producers in the order in which they first wrote, not in that of their transactions.
    for producer_id in (1, 2):
        begin(bench, producer_id)
        bench.end_transaction(producer_id, commit=True)
    oldest = begin(bench, 2, sequence=1)
    begin(bench, 1, sequence=1)
    bench.restart(clean=True)
    bench.advance_high_watermark()
    assert bench.log.last_stable_offset == oldest


def test_truncation_keeps_the_end_of_a_transaction_that_is_not_replicated(bench: LogBench) -> None:
    begin(bench, 1)
    marker = bench.end_transaction(1, commit=True).last_offset
    # The snapshot at the new segment has no transaction any more.
    bench.log.roll()
    bench.append(b"kept")
    bench.append(b"truncated")
    bench.log.update_high_watermark(marker)
    bench.log.truncate_to(marker + 2)
    assert bench.log.first_unstable_offset == 0
    bench.log.update_high_watermark(marker + 1)
    assert bench.log.first_unstable_offset is None


def test_truncation_opens_a_transaction_whose_end_it_removes(bench: LogBench) -> None:
    begin(bench, 1)
    bench.log.roll()
    marker = bench.end_transaction(1, commit=True).last_offset
    bench.log.truncate_to(marker)
    bench.log.update_high_watermark(marker)
    assert bench.log.last_stable_offset == 0
    # The same marker again, from the next leader.
    bench.end_transaction(1, commit=True)
    bench.advance_high_watermark()
    assert bench.log.first_unstable_offset is None


def test_an_aborted_transaction_is_listed_although_another_one_ended_before(bench: LogBench) -> None:
    begin(bench, 1)
    begin(bench, 2)
    bench.end_transaction(1, commit=False)
    bench.end_transaction(2, commit=False)
    assert [entry.producer_id for entry in aborted(bench, 0, 2)] == [1, 2]
    assert [entry.last_stable_offset for entry in aborted(bench, 0, 2)] == [1, 4]
    # From within a transaction, too: its other records are behind the offset.
    assert [entry.producer_id for entry in aborted(bench, 1, 2)] == [1, 2]
    assert [entry.producer_id for entry in aborted(bench, 0, 1)] == [1]


def test_the_first_aborted_transaction_of_a_segment_is_listed(bench: LogBench) -> None:
    begin(bench, 1)
    # A consumer has asked before, and there was no index.
    assert aborted(bench, 0, 1) == []
    bench.end_transaction(1, commit=False)
    assert [entry.producer_id for entry in aborted(bench, 0, 1)] == [1]


def test_very_many_aborted_transactions_are_all_listed(bench: LogBench) -> None:
    for number in range(150):
        begin(bench, 1, sequence=number)
        bench.end_transaction(1, commit=False)
    assert len(aborted(bench, 0, 300)) == 150
    assert [entry.first_offset for entry in aborted(bench, 257, 300)] == list(range(256, 300, 2))


def test_several_batches_at_once_are_checked_like_one_after_the_other(bench: LogBench) -> None:
    def batches(*epochs_and_sequences: tuple[int, int]) -> bytearray:
        parts = [
            batch(b"x", producer_id=7, producer_epoch=epoch, sequence=sequence)
            for epoch, sequence in epochs_and_sequences
        ]
        return bytearray(b"".join(parts))

    for refused, code in (
        (batches((1, 0), (0, 1)), ErrorCode.INVALID_PRODUCER_EPOCH),
        (batches((1, 0), (1, 2)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (batches((1, 0), (2, 1)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ):
        with pytest.raises(KafkaError) as caught:
            bench.append_bytes(refused)
        assert caught.value.code is code
    assert bench.log.log_end_offset == 0
    bench.append_bytes(batches((1, 0), (1, 1), (2, 0)))
    assert bench.log.log_end_offset == 3
