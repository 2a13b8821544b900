"""Which batches of an answer a reader of committed records leaves out."""

from __future__ import annotations

from ottla.client.aborted import AbortedTransactions
from ottla.records.build import build_batch
from ottla.records.control import build_end_transaction_marker
from ottla.records.header import set_base_offset_and_epoch
from ottla.records.iterate import iterate_batches
from ottla.records.record import Record
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData


def batch(producer_id: int, offset: int, *, transactional: bool = True) -> bytearray:
    records = [Record(key=None, value=b"v", timestamp=0)]
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return build_batch(records, base_offset=offset, is_transactional=transactional, **fields)


def marker(producer_id: int, offset: int, *, commits: bool) -> bytearray:
    built = build_end_transaction_marker(
        is_commit=commits, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp_ms=0
    )
    set_base_offset_and_epoch(built, 0, offset, 0)
    return built


def left_out(*batches: bytearray, aborted: list[tuple[int, int]] | None) -> list[int]:
    """Offsets of the batches left out, where transactions of (producer id, first offset) were aborted."""
    listed = None if aborted is None else [AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted]
    transactions = AbortedTransactions(PartitionData(aborted_transactions=listed))
    offsets = []
    for fetched_batch in iterate_batches(memoryview(b"".join(batches))):
        if fetched_batch.header.is_control:
            transactions.on_control(fetched_batch)
        elif transactions.covers(fetched_batch):
            offsets.append(fetched_batch.header.base_offset)
    return offsets


def test_a_transaction_is_left_out_from_its_first_batch_to_its_marker() -> None:
    batches = [
        batch(7, 0),
        batch(8, 1),
        batch(7, 2, transactional=False),
        batch(7, 3),
        marker(7, 4, commits=False),
        batch(7, 5),
        marker(7, 6, commits=True),
        batch(8, 7),
        marker(8, 8, commits=True),
    ]
    assert left_out(*batches, aborted=[(7, 0)]) == [0, 3]
    assert left_out(*batches, aborted=None) == []


def test_a_producer_may_abort_one_transaction_after_the_other() -> None:
    batches = [
        batch(7, 0),
        marker(7, 1, commits=False),
        batch(7, 2),
        marker(7, 3, commits=True),
        batch(7, 4),
        marker(7, 5, commits=False),
    ]
    assert left_out(*batches, aborted=[(7, 4), (7, 0)]) == [0, 4], "in whatever order they are listed"


def test_an_answer_may_begin_in_the_middle_of_a_transaction() -> None:
    assert left_out(batch(7, 10), marker(7, 11, commits=False), batch(7, 12), aborted=[(7, 3)]) == [10]


def test_a_marker_alone_ends_what_began_before_the_answer() -> None:
    assert left_out(marker(7, 10, commits=False), batch(7, 11), aborted=[(7, 3)]) == []
