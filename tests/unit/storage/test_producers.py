"""Idempotent and transactional producers, as the log sees them."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.validate import AppendOrigin
from ottla.storage import lookups
from ottla.storage import producers as producers_module
from ottla.storage.log import AppendResult
from ottla.storage.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from ottla.storage.producer_state import ProducerBatch, ProducerEntry
from tests.unit.storage.helpers import DIRECTORY, LogBench, batch, values_of

SEQUENCE_MAX = (1 << 31) - 1


def send(bench: LogBench, sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 7) -> AppendResult:
    return bench.append(
        *[b"s%d" % sequence] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        sequence=sequence,
        timestamp=bench.world.clock.now_ms(),
    )


def refused(bench: LogBench, sequence: int, **fields: int) -> ErrorCode:
    before = bench.log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        send(bench, sequence, **fields)
    assert bench.log.log_end_offset == before
    return caught.value.code


def test_a_batch_sent_again_is_answered_with_its_first_offset(bench: LogBench) -> None:
    bench.append(b"other")
    first = send(bench, 0, count=3)
    assert (first.first_offset, first.last_offset, first.duplicate) == (1, 3, False)
    again = send(bench, 0, count=3)
    assert (again.first_offset, again.last_offset, again.duplicate) == (1, 3, True)
    assert bench.log.log_end_offset == 4


def test_the_last_five_batches_are_known(bench: LogBench) -> None:
    for sequence in range(6):
        send(bench, sequence)
    for sequence in range(1, 6):
        assert send(bench, sequence).duplicate
    # The sixth last batch is forgotten: it is out of order, not a duplicate.
    assert refused(bench, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused(bench: LogBench) -> None:
    send(bench, 0)
    assert refused(bench, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(bench, 1)


def test_part_of_a_batch_sent_again_is_not_a_duplicate(bench: LogBench) -> None:
    send(bench, 0, count=3)
    assert refused(bench, 1, count=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_numbers_wrap_to_zero(bench: LogBench) -> None:
    send(bench, SEQUENCE_MAX - 1, count=3)
    assert bench.log.active_producers()[0].last_sequence == 0
    assert send(bench, SEQUENCE_MAX - 1, count=3).duplicate
    assert send(bench, 1).first_offset == 3
    assert send(bench, 2, producer_id=8).first_offset == 4


def test_sequence_numbers_wrap_between_two_batches(bench: LogBench) -> None:
    send(bench, SEQUENCE_MAX)
    assert refused(bench, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(bench, 0).first_offset == 1
    assert send(bench, SEQUENCE_MAX).duplicate


def test_sequence_numbers_wrap_between_two_transactions(bench: LogBench) -> None:
    # The first batch of a transaction is not one that only continues the batch before.
    transact(bench, 7, SEQUENCE_MAX)
    bench.end_transaction(7, commit=True)
    assert transact(bench, 7, 0) == 2


def test_an_unknown_producer_may_begin_anywhere(bench: LogBench) -> None:
    # Retention may have deleted its earlier records; UNKNOWN_PRODUCER_ID is no longer used for this.
    assert send(bench, 42).first_offset == 0
    assert refused(bench, 44) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(bench: LogBench) -> None:
    send(bench, 0, epoch=1)
    assert refused(bench, 1, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(bench, 1, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(bench, 0, epoch=2)
    assert bench.log.active_producers()[0].epoch == 2
    assert len(bench.log.active_producers()[0].batches) == 1


def test_a_coordinator_is_checked_for_its_epoch_only(bench: LogBench) -> None:
    fields = {"producer_id": 7, "producer_epoch": 3, "sequence": -1, "transactional": True}
    for _ in range(2):
        bench.append(b"commit", origin=AppendOrigin.COORDINATOR, **fields)
    assert bench.log.log_end_offset == 2
    with pytest.raises(KafkaError):
        bench.append(b"late", origin=AppendOrigin.COORDINATOR, **{**fields, "producer_epoch": 2})


def test_what_comes_by_replication_is_not_checked(bench: LogBench) -> None:
    bench.log.append_as_follower(
        batch(b"a", base_offset=0, leader_epoch=0, producer_id=7, producer_epoch=5, sequence=9)
        + batch(b"b", base_offset=1, leader_epoch=0, producer_id=7, producer_epoch=4, sequence=3)
    )
    assert bench.log.log_end_offset == 2


@pytest.mark.parametrize("clean", [True, False])
def test_producers_survive_a_restart(clean: bool) -> None:
    bench = LogBench(segment_bytes=300)
    for sequence in range(8):
        send(bench, sequence)
    assert len(bench.bases()) > 1
    bench.restart(clean=clean)
    assert send(bench, 7).duplicate
    assert refused(bench, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(bench, 8).first_offset == 8


@pytest.mark.parametrize(("segment_bytes", "segments"), [(1 << 20, 1), (300, 4)])
def test_what_the_snapshot_has_forgotten_is_found_in_the_log(segment_bytes: int, segments: int) -> None:
    bench = LogBench(**{"internal.segment.bytes": segment_bytes})
    for sequence in range(7):
        send(bench, sequence)
        bench.append(b"other", producer_id=8, sequence=sequence)
    assert len(bench.log.segments) == segments
    bench.restart(clean=True)
    end = bench.log.log_end_offset
    # A producer with five requests in flight, none of which was answered, begins with the oldest.
    for sequence in range(2, 7):
        again = send(bench, sequence)
        assert (again.duplicate, again.first_offset) == (True, 2 * sequence)
    assert bench.log.log_end_offset == end
    assert refused(bench, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(bench, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not send(bench, 7).duplicate


def test_batches_of_an_earlier_epoch_are_not_taken_for_those_of_this_one(bench: LogBench) -> None:
    for sequence in range(4):
        send(bench, sequence, epoch=0)
    send(bench, 0, epoch=1)
    bench.restart(clean=True)
    # A batch before it was refused. It would be lost if it counted as the duplicate of one of the former producer.
    assert refused(bench, 2, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_log_is_looked_through_once_and_only_for_an_older_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = LogBench()
    for sequence in range(3):
        send(bench, sequence)
    bench.restart(clean=True)
    looks: list[int] = []
    recall = producers_module.recall_batches
    monkeypatch.setattr(
        producers_module, "recall_batches", lambda segments, entry: (looks.append(1), recall(segments, entry))
    )
    assert send(bench, 2).duplicate
    assert not send(bench, 3).duplicate
    assert looks == []
    for _ in range(3):
        assert refused(bench, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert looks == [1]
    assert send(bench, 0).duplicate


def test_all_batches_since_the_snapshot_are_known_after_a_crash(bench: LogBench) -> None:
    for sequence in range(4):
        send(bench, sequence)
    bench.restart(clean=False)
    for sequence in range(4):
        assert send(bench, sequence).duplicate


def test_a_damaged_snapshot_is_passed_over(bench: LogBench) -> None:
    for sequence in range(4):
        send(bench, sequence)
    bench.log.roll()
    for sequence in range(4, 6):
        send(bench, sequence)
    bench.log.flush()
    bench.log.close()
    path = f"{DIRECTORY}/00000000000000000006.snapshot"
    bench.files.corrupt(path, 20, 0x40)
    bench.open(clean=True, recovery_point=6)
    assert "00000000000000000006.snapshot" not in bench.names()
    assert send(bench, 5).duplicate
    assert send(bench, 6).first_offset == 6


def test_producers_expire_but_not_inside_a_transaction(bench: LogBench) -> None:
    now = bench.world.clock.now_ms()
    bench.append(b"a", producer_id=1, producer_epoch=0, sequence=0, timestamp=now)
    bench.append(b"b", producer_id=2, producer_epoch=0, sequence=0, timestamp=now, transactional=True)
    state = bench.log.producers.state
    assert state.expire(now + 999, 1000) == 0
    assert state.expire(now + 1000, 1000) == 1
    assert [entry.producer_id for entry in bench.log.active_producers()] == [2]
    # An expired producer may go on with whatever comes next.
    assert bench.append(b"c", producer_id=1, producer_epoch=0, sequence=17).first_offset == 2


def test_expired_producers_do_not_come_back_from_a_snapshot() -> None:
    bench = LogBench()
    bench.append(b"a", producer_id=1, producer_epoch=0, sequence=0, timestamp=bench.world.clock.now_ms())
    bench.log.flush()
    bench.log.close()
    bench.world.scheduler.advance(86_400_000)
    bench.open(clean=True, recovery_point=1)
    assert bench.log.active_producers() == []


# ---- transactions


def transact(bench: LogBench, producer_id: int, sequence: int) -> int:
    return bench.append(
        b"t", producer_id=producer_id, producer_epoch=0, sequence=sequence, transactional=True
    ).first_offset


def test_the_first_unstable_offset_follows_open_transactions(bench: LogBench) -> None:
    assert bench.log.first_unstable_offset is None
    bench.append(b"plain")
    transact(bench, 1, 0)
    transact(bench, 2, 0)
    bench.advance_high_watermark()
    assert bench.log.first_unstable_offset == bench.log.last_stable_offset == 1
    bench.end_transaction(1, commit=True)
    # Ended, but not yet replicated.
    assert bench.log.first_unstable_offset == 1
    bench.advance_high_watermark()
    assert bench.log.first_unstable_offset == 2
    bench.end_transaction(2, commit=False)
    bench.advance_high_watermark()
    assert bench.log.first_unstable_offset is None
    assert bench.log.last_stable_offset == bench.log.log_end_offset == 5


def test_aborted_transactions_are_listed_for_what_they_touch() -> None:
    bench = LogBench(segment_bytes=300)
    for number in range(4):
        transact(bench, 1, number)
        transact(bench, 2, number)
        bench.end_transaction(1, commit=False)
        bench.end_transaction(2, commit=True)
    aborted = lookups.aborted_transactions(bench.log.segments, 0, 100)
    assert [(entry.first_offset, entry.last_offset) for entry in aborted] == [(0, 2), (4, 6), (8, 10), (12, 14)]
    assert [entry.last_stable_offset for entry in aborted] == [1, 5, 9, 13]
    assert [entry.first_offset for entry in lookups.aborted_transactions(bench.log.segments, 5, 9)] == [4, 8]
    assert lookups.aborted_transactions(bench.log.segments, 7, 8) == []
    for clean in (True, False):
        bench.restart(clean=clean, recovery_point=None if clean else 0)
        assert lookups.aborted_transactions(bench.log.segments, 0, 100) == aborted


def test_the_transaction_index_is_rebuilt_after_a_crash(bench: LogBench) -> None:
    for number in range(3):
        transact(bench, 1, number)
        bench.end_transaction(1, commit=False)
    aborted = lookups.aborted_transactions(bench.log.segments, 0, 100)
    path = f"{DIRECTORY}/00000000000000000000.txnindex"
    whole = bench.files.read_bytes(path)
    for damaged in (whole, whole[:-10], whole[:10], whole + whole, b""):
        bench.files.write_atomically(path, damaged)
        bench.restart(clean=False, recovery_point=0)
        assert lookups.aborted_transactions(bench.log.segments, 0, 100) == aborted
        assert bench.files.read_bytes(path) == whole


@pytest.mark.parametrize("damage", [b"", None, bytes(34), b"cut"], ids=["empty", "gone", "zeros", "cut"])
def test_the_transaction_index_is_rebuilt_below_the_latest_snapshot_too(damage: bytes | None) -> None:
    """Unflushed data may be lost, in any combination of files."""
    bench = LogBench()
    for producer_id in (1, 2):
        transact(bench, producer_id, 0)
    bench.end_transaction(1, commit=False)
    bench.log.roll()
    bench.end_transaction(2, commit=False)
    # A snapshot in the middle of the second segment.
    bench.restart(clean=True)
    transact(bench, 1, 1)
    bench.end_transaction(1, commit=False)
    aborted = lookups.aborted_transactions(bench.log.segments, 0, 100)
    assert len(aborted) == 3
    for name in bench.names(".txnindex"):
        path = f"{DIRECTORY}/{name}"
        if damage is None:
            bench.files.remove(path)
        else:
            bench.files.write_atomically(path, damage)
    bench.restart(clean=False, recovery_point=0)
    assert lookups.aborted_transactions(bench.log.segments, 0, 100) == aborted
    assert [entry.last_sequence for entry in bench.log.active_producers()] == [1], "what has expired stays so"
    # The index is durable like the log it belongs to.
    bench.restart(clean=True)
    bench.files.lose_unsynced()
    bench.restart(clean=False)
    assert lookups.aborted_transactions(bench.log.segments, 0, 100) == aborted


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
def test_aborted_transactions_survive_a_power_cut_after_a_flush(clean: bool, rolls: bool) -> None:
    bench = LogBench()
    transact(bench, 1, 0)
    bench.end_transaction(1, commit=False)
    bench.log.flush()
    aborted = lookups.aborted_transactions(bench.log.segments, 0, 100)
    if rolls:
        bench.log.roll()
        bench.append(b"plain")
        bench.log.flush()
    assert bench.log.recovery_point == bench.log.log_end_offset
    if clean:
        # The caller of close syncs the files that it has written.
        for path in bench.log.close():
            if not bench.files.is_directory(path):
                bench.files.open(path).sync()
    recovery_point = bench.log.recovery_point
    bench.files.lose_unsynced()
    bench.open(clean=clean, recovery_point=recovery_point)
    assert lookups.aborted_transactions(bench.log.segments, 0, 100) == aborted


def test_open_transactions_survive_a_restart() -> None:
    bench = LogBench(segment_bytes=200)
    transact(bench, 1, 0)
    for number in range(5):
        bench.append(b"plain-%d" % number)
    for clean in (True, False):
        bench.restart(clean=clean)
        assert bench.log.first_unstable_offset == 0
    bench.end_transaction(1, commit=False)
    bench.advance_high_watermark()
    assert bench.log.first_unstable_offset is None
    assert [tuple(entry)[:3] for entry in lookups.aborted_transactions(bench.log.segments, 0, 100)] == [(1, 0, 6)]


def test_a_plain_write_inside_a_transaction_is_refused(bench: LogBench) -> None:
    transact(bench, 7, 0)
    assert refused(bench, 1) == ErrorCode.INVALID_TXN_STATE


def test_a_coordinator_that_was_replaced_is_fenced(bench: LogBench) -> None:
    transact(bench, 1, 0)
    bench.end_transaction(1, commit=True, coordinator_epoch=5)
    transact(bench, 1, 1)
    with pytest.raises(KafkaError) as caught:
        bench.end_transaction(1, commit=True, coordinator_epoch=4)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert bench.log.log_end_offset == 3


def test_only_a_transaction_of_the_same_epoch_takes_records(bench: LogBench) -> None:
    state = bench.log.producers.state
    state.set_verification(is_enabled=True)
    verification = state.begin_verification(7, epoch=5, sequence=0, supports_epoch_bump=True, now_ms=0)
    assert verification is not None
    state.confirm(7, verification)

    def refusal(epoch: int) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            state.check_in_transaction(7, epoch)
        return caught.value.code

    # The transaction is verified but not begun: another epoch is another transaction.
    assert state.check_in_transaction(7, 5) is verification
    assert (refusal(4), refusal(6)) == (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE)
    bench.append(b"t", producer_id=7, producer_epoch=5, sequence=0, transactional=True)
    # The transaction has begun: an older producer is fenced, and a newer producer waits for its marker.
    assert state.check_in_transaction(7, 5) is None
    assert (refusal(4), refusal(6)) == (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)


def test_a_marker_without_a_transaction_is_no_transaction(bench: LogBench) -> None:
    bench.end_transaction(1, commit=False)
    assert bench.log.first_unstable_offset is None
    assert lookups.aborted_transactions(bench.log.segments, 0, 10) == []
    assert not bench.names(".txnindex")


def test_truncation_takes_producers_back(bench: LogBench) -> None:
    for sequence in range(4):
        send(bench, sequence)
    transact(bench, 9, 0)
    bench.end_transaction(9, commit=False)
    bench.log.truncate_to(5)
    assert bench.log.first_unstable_offset == 4
    assert lookups.aborted_transactions(bench.log.segments, 0, 10) == []
    bench.log.truncate_to(2)
    assert bench.log.first_unstable_offset is None
    assert send(bench, 2).first_offset == 2
    assert values_of(bench.log) == [b"s0", b"s1", b"s2"]


# ---- the snapshot's format


def test_a_snapshot_reads_as_it_was_written() -> None:
    entries = [
        ProducerEntry(5, epoch=2, coordinator_epoch=3, last_timestamp=9, batches=(ProducerBatch(7, 20, 2, 9),)),
        ProducerEntry(6, epoch=0, last_timestamp=4, current_transaction_first_offset=11),
    ]
    decoded = decode_snapshot(encode_snapshot(entries))
    fields = (
        "producer_id",
        "epoch",
        "coordinator_epoch",
        "last_timestamp",
        "current_transaction_first_offset",
        "batches",
    )
    assert [[getattr(entry, field) for field in fields] for entry in decoded] == [
        [getattr(entry, field) for field in fields] for entry in entries
    ]


def test_every_damage_of_a_snapshot_is_noticed() -> None:
    data = encode_snapshot([ProducerEntry(5, epoch=2, batches=(ProducerBatch(7, 20, 2, 9),))])
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(data[:length])
    for position in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[position] ^= 1 << bit
            with pytest.raises(CorruptSnapshot):
                decode_snapshot(bytes(broken))
