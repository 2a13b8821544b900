"""Cutting a log at either end, leader epochs, timestamps, and logs of mixed formats."""

from __future__ import annotations

import errno

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.compression import Codec
from ottla.records.legacy import build_message_set
from ottla.records.record import Record
from ottla.storage.leader_epochs import EpochEnd
from tests.unit.storage.helpers import DIRECTORY, LogBench, batch, offsets_of, read_all, values_of

# ---- truncation


@pytest.mark.parametrize("offset", range(13))
@pytest.mark.parametrize("segment_bytes", [250, 100_000])
def test_truncation_keeps_what_lies_below(offset: int, segment_bytes: int) -> None:
    bench = LogBench(segment_bytes=segment_bytes, index_interval_bytes=50)
    for number in range(12):
        bench.append(b"v%02d" % number)
    assert bench.log.truncate_to(offset) == (offset < 12)
    assert values_of(bench.log) == [b"v%02d" % number for number in range(offset)]
    bench.append(b"new")
    assert offsets_of(bench.log) == list(range(offset + 1))
    bench.restart(clean=False, recovery_point=0)
    assert offsets_of(bench.log) == list(range(offset + 1))


def test_truncation_inside_a_batch_takes_the_whole_batch(bench: LogBench) -> None:
    bench.append(b"a", b"b")
    bench.append(b"c", b"d")
    bench.log.truncate_to(3)
    assert values_of(bench.log) == [b"a", b"b"]


def test_truncation_lowers_recovery_point_and_high_watermark(bench: LogBench) -> None:
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    bench.log.flush()
    bench.advance_high_watermark()
    bench.log.truncate_to(1)
    assert (bench.log.recovery_point, bench.log.high_watermark) == (1, 1)


def with_gaps(*offsets: int, **settings: object) -> LogBench:
    """A log as a compacted leader gives it to a follower."""
    bench = LogBench(cleanup_policy="compact", index_interval_bytes=50, **settings)
    for offset in offsets:
        bench.log.append_as_follower(bytes(batch(b"at %d" % offset, base_offset=offset, leader_epoch=0)))
    return bench


@pytest.mark.parametrize("segment_bytes", [150, 100_000])
@pytest.mark.parametrize(
    ("offset", "end"), [(1, 1), (2, 1), (4, 1), (5, 1), (6, 6), (7, 6), (8, 6), (9, 9), (20, 9), (21, 21)]
)
def test_a_log_that_is_cut_in_a_gap_ends_with_its_last_batch(segment_bytes: int, offset: int, end: int) -> None:
    """The missing offsets may be a gap of the leader or lost records: a follower has to fetch them again."""
    bench = with_gaps(0, 5, 8, 20, 21, segment_bytes=segment_bytes)
    bench.advance_high_watermark()
    assert bench.log.truncate_to(offset)
    if segment_bytes == 150 and bench.log.segments.active.size == 0:
        # The segment is empty: the log ends at its base offset.
        end = bench.log.segments.active.base_offset
    assert bench.log.log_end_offset == bench.log.high_watermark == end
    assert bench.append(b"next").first_offset == end


def test_a_log_that_is_cut_does_not_end_before_it_begins() -> None:
    bench = with_gaps(0, 5, 20)
    bench.advance_high_watermark()
    bench.log.advance_log_start_offset(10)
    bench.log.truncate_to(12)
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.high_watermark) == (10, 10, 10)
    bench.log.append_as_follower(bytes(batch(b"again", base_offset=20, leader_epoch=0)))
    assert offsets_of(bench.log) == [20]


def test_a_log_whose_only_batch_claims_another_offset_is_empty_when_that_is_cut() -> None:
    """The checksum does not cover the base offset, and a compacted topic may have gaps: recovery accepts the offset."""
    bench = LogBench(cleanup_policy="compact")
    bench.append(b"a")
    bench.files.corrupt(f"{DIRECTORY}/00000000000000000000.log", 4, 0x20)
    bench.restart(clean=False, recovery_point=0)
    assert bench.log.log_end_offset == (1 << 29) + 1
    bench.log.truncate_to(1)
    assert bench.log.log_end_offset == 0
    assert bench.log.epochs.entries == ()


def test_a_log_can_be_restarted_at_another_offset(bench: LogBench) -> None:
    for value in (b"a", b"b"):
        bench.append(value)
    bench.log.truncate_fully_and_start_at(100)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (100, 100)
    assert bench.append(b"c").first_offset == 100
    assert bench.restart(clean=False).log_start_offset == 100
    assert offsets_of(bench.log) == [100]


# ---- the start


def test_records_are_deleted_up_to_the_high_watermark_only(bench: LogBench) -> None:
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    bench.log.update_high_watermark(2)
    with pytest.raises(KafkaError) as caught:
        bench.log.advance_log_start_offset(3)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert bench.log.advance_log_start_offset(2)
    assert not bench.log.advance_log_start_offset(1)
    with pytest.raises(KafkaError):
        bench.log.read(1, max_bytes=100, end_offset=3)
    assert offsets_of(bench.log) == [2]
    bench.restart(clean=False)
    assert bench.log.log_start_offset == 2


def test_a_crash_that_took_everything_above_the_start_begins_there(bench: LogBench) -> None:
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    bench.files.lose_unsynced()
    bench.open(clean=False, log_start_offset=2)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (2, 2)
    assert bench.append(b"d").first_offset == 2


# ---- leader epochs


def test_epochs_are_noted_with_their_first_offset(bench: LogBench) -> None:
    for epoch in (1, 1, 3, 3, 4):
        bench.append(b"x", leader_epoch=epoch)
    assert bench.files.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n3\n1 0\n3 2\n4 4\n"
    log = bench.log
    assert log.end_offset_for_epoch(0) == EpochEnd(0, 0)
    assert log.end_offset_for_epoch(1) == EpochEnd(1, 2)
    assert log.end_offset_for_epoch(2) == EpochEnd(1, 2)
    assert log.end_offset_for_epoch(3) == EpochEnd(3, 4)
    assert log.end_offset_for_epoch(4) == EpochEnd(4, 5)
    assert log.end_offset_for_epoch(5) == EpochEnd(-1, -1)
    assert log.end_offset_for_epoch(-1) == EpochEnd(-1, -1)
    assert [log.epochs.epoch_of(offset) for offset in range(5)] == [1, 1, 3, 3, 4]
    log.truncate_to(3)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (3, 2)]
    log.update_high_watermark(3)
    log.advance_log_start_offset(1)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 1), (3, 2)]
    assert bench.restart(clean=False, recovery_point=0).epochs.entries == log.epochs.entries


@pytest.mark.parametrize("checkpoint", [None, b"", b"garbage", b"0\n9\n1 0\n"])
def test_epochs_are_rebuilt_after_a_crash(checkpoint: bytes | None) -> None:
    bench = LogBench()
    for epoch in (1, 1, 3):
        bench.append(b"x", leader_epoch=epoch)
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    if checkpoint is None:
        bench.files.remove(path)
    else:
        bench.files.write_atomically(path, checkpoint)
    bench.restart(clean=False, recovery_point=0)
    assert [tuple(entry) for entry in bench.log.epochs.entries] == [(1, 0), (3, 2)]
    assert len(offsets_of(bench.log)) == 3


# ---- timestamps


def test_the_first_record_at_or_after_a_time_is_found() -> None:
    bench = LogBench(segment_bytes=400, index_interval_bytes=100)
    for number in range(30):
        bench.append(b"x", timestamp=1000 + 10 * number)
    for number in range(30):
        assert bench.log.offset_for_timestamp(1000 + 10 * number).result() == (1000 + 10 * number, number)
        assert bench.log.offset_for_timestamp(995 + 10 * number).result() == (1000 + 10 * number, number)
    assert bench.log.offset_for_timestamp(1291).result() is None
    bench.advance_high_watermark()
    bench.log.advance_log_start_offset(12)
    assert bench.log.offset_for_timestamp(0).result() == (1120, 12)


def test_times_out_of_order_give_the_first_offset_that_is_late_enough(bench: LogBench) -> None:
    for timestamp in (50, 10, 80, 20, 80, 30):
        bench.append(b"x", timestamp=timestamp)
    assert bench.log.offset_for_timestamp(15).result() == (50, 0)
    assert bench.log.offset_for_timestamp(60).result() == (80, 2)
    assert bench.log.offset_of_max_timestamp().result() == (80, 2)


def test_the_youngest_record_below_the_start_does_not_count(bench: LogBench) -> None:
    for timestamp in (90, 10, 20):
        bench.append(b"x", timestamp=timestamp)
    bench.advance_high_watermark()
    bench.log.advance_log_start_offset(1)
    assert bench.log.offset_of_max_timestamp().result() == (20, 2)
    assert bench.log.offset_for_timestamp(50).result() is None


def test_an_empty_log_knows_no_times(bench: LogBench) -> None:
    assert bench.log.offset_of_max_timestamp().result() is None
    assert bench.log.offset_for_timestamp(0).result() is None


# ---- old formats


def messages(magic: int, *values: bytes, first: int, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(key=None, value=value, timestamp=500, offset=first + n) for n, value in enumerate(values)]
    return bytes(build_message_set(records, magic=magic, codec=codec))


def test_a_log_of_mixed_formats_is_read_whole() -> None:
    bench = LogBench(index_interval_bytes=50)
    old = (
        messages(0, b"m0-a", b"m0-b", first=0)
        + messages(1, b"m1-a", b"m1-b", first=2)
        + messages(1, b"packed-a", b"packed-b", b"packed-c", first=4, codec=Codec.GZIP)
    )
    bench.files.make_directories(DIRECTORY)
    bench.files.write_atomically(f"{DIRECTORY}/00000000000000000000.log", old)
    bench.open(clean=False)
    assert bench.log.log_end_offset == 7
    bench.append(b"new")
    expected = [b"m0-a", b"m0-b", b"m1-a", b"m1-b", b"packed-a", b"packed-b", b"packed-c", b"new"]
    for _ in range(2):
        assert values_of(bench.log) == expected
        for offset in range(8):
            assert any(record.offset == offset for record in read_all(bench.log, start=offset, max_bytes=1))
        bench.restart(clean=False, recovery_point=0)
    assert bench.log.offset_for_timestamp(400).result() == (500, 2)
    torn = bytearray(old)
    torn[-5] ^= 1
    bench.files.write_atomically(f"{DIRECTORY}/00000000000000000000.log", bytes(torn))
    bench.open(clean=False)
    assert bench.log.log_end_offset == 4


# ---- replacing segments


def test_interrupted_cleaning_is_undone_or_finished() -> None:
    bench = LogBench(segment_bytes=250, cleanup_policy="compact")
    for number in range(9):
        bench.append(b"v%d" % number)
    assert len(bench.bases()) >= 3
    second = bench.bases()[1]
    bench.log.flush()
    bench.log.close()
    stem = f"{DIRECTORY}/{0:020d}"
    # A cleaning that had not finished writing leaves no trace.
    bench.files.write_atomically(f"{stem}.log.cleaned", b"half a segm")
    bench.open(clean=True, recovery_point=9)
    assert offsets_of(bench.log) == list(range(9))
    assert not bench.names(".cleaned")
    bench.log.close()
    # A complete cleaning is finished: offset 0 alone survives of the first two segments.
    bench.files.write_atomically(
        f"{stem}.log.swap",
        bytes(batch(b"kept", base_offset=0, leader_epoch=0) + batch(b"kept", base_offset=second, leader_epoch=0)),
    )
    bench.open(clean=True, recovery_point=9)
    assert bench.bases()[0] == 0
    assert second not in bench.bases()
    assert offsets_of(bench.log)[:2] == [0, second]
    assert not bench.names(".swap")


@pytest.mark.parametrize("interruptions", range(6))
def test_a_replacement_that_is_interrupted_keeps_the_index_of_aborted_transactions(interruptions: int) -> None:
    """A repaired segment is below the recovery point: nothing would rebuild the index."""
    bench = LogBench()
    bench.append(b"aborted", producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    bench.end_transaction(7, commit=False)
    bench.log.roll()
    bench.append(b"later")
    bench.log.flush()
    end = bench.log.log_end_offset
    stem = f"{DIRECTORY}/{0:020d}"
    bench.log.segments[0].close()
    kinds = [".log", ".index", ".timeindex", ".txnindex"]
    for kind in kinds:
        bench.files.rename(stem + kind, f"{stem}{kind}.swap")
    # The node has renamed some files; every start renames one more and then fails.
    for kind in kinds[: interruptions // 2]:
        bench.files.rename(f"{stem}{kind}.swap", stem + kind)
    if interruptions % 2:
        bench.files.fail_next("rename", OSError(errno.EIO, "i/o error"), path_contains=".txnindex.swap")
        with pytest.raises(OSError, match="i/o error"):
            bench.open(recovery_point=end)
    bench.open(recovery_point=end)
    assert not bench.names(".swap")
    bench.advance_high_watermark()
    read = bench.log.read(0, max_bytes=1000, end_offset=end)
    assert [entry.producer_id for entry in bench.log.aborted_in_read(read, start=0, end_offset=end)] == [7]
    assert values_of(bench.log)[-1] == b"later"


def test_indexes_of_a_replacement_that_has_only_begun_are_removed() -> None:
    bench = LogBench()
    bench.append(b"a")
    bench.log.roll()
    bench.append(b"b")
    bench.log.flush()
    bench.log.close()
    stem = f"{DIRECTORY}/{0:020d}"
    bench.files.write_atomically(f"{stem}.log.cleaned", b"complete")
    bench.files.write_atomically(f"{stem}.txnindex.swap", b"of the cleaned segment")
    bench.open(recovery_point=2)
    assert not bench.names(".swap")
    assert not bench.names(".txnindex")
    assert values_of(bench.log) == [b"a", b"b"]
