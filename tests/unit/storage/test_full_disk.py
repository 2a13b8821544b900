"""A full disk, or a lack of open files, refuses what cannot be done now. It takes nothing out of service."""

from __future__ import annotations

import errno

import pytest

from ottla.records.build import build_batch
from ottla.records.control import build_end_transaction_marker
from ottla.records.record import Record
from ottla.storage.cleaner.offset_map import OffsetMap
from ottla.storage.cleaner.plan import measure, plan_cleaning
from ottla.storage.cleaner.rewrite import Cleaning
from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.leader_epochs import EpochStart, LeaderEpochs
from ottla.storage.names import CLEAN_SHUTDOWN_FILE
from tests.unit.storage.helpers import DIRECTORY, LogBench, batch, values_of
from tests.unit.storage.logs_node import Node

EPOCHS_FILE = "leader-epoch-checkpoint"


def full() -> OSError:
    return OSError(errno.ENOSPC, "no space left on device")


def no_descriptors() -> OSError:
    return OSError(errno.EMFILE, "too many open files")


def two_epochs() -> LogBench:
    """Two batches of epoch 0 and two of epoch 3."""
    bench = LogBench()
    for number, epoch in enumerate((0, 0, 3, 3)):
        bench.append(b"%d" % number, leader_epoch=epoch)
    bench.advance_high_watermark()
    return bench


def fill_disk(bench: LogBench) -> None:
    bench.files.capacity_bytes = 0


def epochs_on_disk(bench: LogBench) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in LeaderEpochs.load(bench.files, DIRECTORY).entries]


class TestTruncation:
    def test_a_log_is_truncated_on_a_full_disk(self) -> None:
        bench = two_epochs()
        fill_disk(bench)
        assert bench.log.truncate_to(2)
        assert bench.failures == []
        assert values_of(bench.log) == [b"0", b"1"]
        assert bench.log.epochs.entries == (EpochStart(0, 0),)
        bench.log.invariants()

    @pytest.mark.parametrize("clean", [False, True])
    def test_epochs_that_were_removed_on_a_full_disk_stay_removed(self, clean: bool) -> None:
        bench = two_epochs()
        fill_disk(bench)
        bench.log.truncate_to(2)
        assert epochs_on_disk(bench) == [(0, 0), (3, 2)]
        bench.files.capacity_bytes = None
        bench.restart(clean=clean)
        assert bench.log.epochs.entries == (EpochStart(0, 0),)

    def test_the_epochs_are_written_with_the_next_flush(self) -> None:
        bench = two_epochs()
        fill_disk(bench)
        bench.log.truncate_to(2)
        bench.log.flush()
        assert not bench.log.files.is_synced, "a shutdown would not be clean"
        bench.files.capacity_bytes = None
        bench.log.flush()
        assert bench.log.files.is_synced
        assert epochs_on_disk(bench) == [(0, 0)]
        assert bench.failures == []

    def test_a_batch_of_an_earlier_epoch_survives_a_crash(self) -> None:
        """The leader continues an earlier epoch. With the old file, recovery would take its batch for damaged."""
        bench = two_epochs()
        fill_disk(bench)
        bench.log.truncate_to(2)
        bench.files.capacity_bytes = None
        bench.log.append_as_follower(batch(b"of the leader", base_offset=2, leader_epoch=0))
        bench.restart(clean=False, recovery_point=0)
        assert values_of(bench.log) == [b"0", b"1", b"of the leader"]

    def test_no_batch_is_appended_before_the_epochs_are_written(self) -> None:
        bench = two_epochs()
        fill_disk(bench)
        bench.log.truncate_to(2)
        bench.files.capacity_bytes = None
        bench.files.fail_next("write_atomically", full(), path_contains=EPOCHS_FILE)
        built = batch(b"of the leader", base_offset=2, leader_epoch=0)
        with pytest.raises(DiskFull):
            bench.log.append_as_follower(built)
        assert bench.log.log_end_offset == 2
        bench.log.append_as_follower(built)
        assert epochs_on_disk(bench) == [(0, 0)]

    def test_an_epoch_without_records_is_removed_on_a_full_disk(self) -> None:
        bench = two_epochs()
        bench.log.epochs.assign(4, 4)
        fill_disk(bench)
        assert bench.log.truncate_to(4)
        assert bench.log.epochs.latest == 3

    def test_without_descriptors_a_truncation_is_refused_and_changes_nothing(self) -> None:
        bench = LogBench(segment_bytes=len(batch(b"0")) + 1)
        for number in range(4):
            bench.append(b"%d" % number)
        log = bench.restart(clean=True)
        for _ in range(2):
            bench.files.fail_next("open", no_descriptors(), path_contains="1.log")
        with pytest.raises(StorageError):
            log.truncate_to(1)
        assert bench.failures == []
        assert log.log_end_offset == 4
        assert log.truncate_to(1)
        assert values_of(log) == [b"0"]


class TestRestartedLog:
    def test_a_log_is_emptied_on_a_full_disk(self) -> None:
        bench = two_epochs()
        fill_disk(bench)
        bench.log.truncate_fully_and_start_at(50)
        assert bench.failures == []
        assert (bench.log.log_start_offset, bench.log.log_end_offset) == (50, 50)
        assert bench.log.epochs.latest == -1
        bench.files.capacity_bytes = None
        bench.log.append_as_follower(batch(b"x", base_offset=50, leader_epoch=3))
        bench.restart(clean=False)
        assert values_of(bench.log) == [b"x"]
        assert bench.log.epochs.entries == (EpochStart(3, 50),)

    def test_a_log_stays_as_it_is_if_the_new_file_is_refused(self) -> None:
        bench = two_epochs()
        bench.files.fail_next("create", full(), path_contains=".log")
        with pytest.raises(DiskFull):
            bench.log.truncate_fully_and_start_at(50)
        assert bench.failures == []
        assert values_of(bench.log) == [b"0", b"1", b"2", b"3"]
        bench.log.truncate_fully_and_start_at(0)
        bench.append(b"new")
        assert values_of(bench.log) == [b"new"]
        assert bench.names(".tmp") == []

    def test_a_broken_disk_is_still_out_of_service(self) -> None:
        bench = two_epochs()
        bench.files.break_directory(DIRECTORY)
        with pytest.raises(StorageError):
            bench.log.truncate_fully_and_start_at(50)
        assert len(bench.failures) == 1

    def test_a_clean_shutdown_with_old_epochs_in_the_file_reads_the_log_again(self) -> None:
        node = Node()
        node.start()
        log = node.create("t")
        node.append(log, b"a")
        node.files.fail_next("write_atomically", full(), path_contains=EPOCHS_FILE)
        log.truncate_fully_and_start_at(50)
        assert log.epochs.is_unwritten
        node.stop()
        assert node.files.exists(f"/d1/{CLEAN_SHUTDOWN_FILE}")
        node.start()
        log = node.create("t")
        log.append_as_follower(batch(b"x", base_offset=50, leader_epoch=7))
        node.kill()
        node.start()
        assert values_of(node.create("t")) == [b"x"]


class TestStart:
    def test_the_log_start_moves_on_a_full_disk(self) -> None:
        bench = two_epochs()
        fill_disk(bench)
        assert bench.log.advance_log_start_offset(3)
        assert bench.log.log_start_offset == 3
        assert bench.log.epochs.entries == (EpochStart(3, 3),)
        bench.files.capacity_bytes = None
        bench.append(b"4", leader_epoch=3)
        assert epochs_on_disk(bench) == [(3, 3)]

    def test_a_disk_that_fails_is_out_of_service(self) -> None:
        bench = two_epochs()
        bench.files.fail_next("write_atomically", OSError(errno.EIO, "input/output error"), path_contains=EPOCHS_FILE)
        with pytest.raises(StorageError):
            bench.log.advance_log_start_offset(3)
        assert len(bench.failures) == 1


class TestRetention:
    def filled_node(self, *topics: str, **overrides: int) -> Node:
        node = Node()
        node.start()
        for topic in topics:
            log = node.create(topic, **overrides)
            for number in range(9):
                node.append(log, b"x" * 100)
                if number in (2, 5):
                    log.roll()
            node.world.scheduler.run()
            log.update_high_watermark(log.log_end_offset)
        return node

    def test_closed_segments_go_though_the_active_one_cannot_roll(self) -> None:
        node = self.filled_node("a", retention_ms=1000, file_delete_delay_ms=0)
        (log,) = node.logs
        node.files.capacity_bytes = node.files.used_bytes()
        node.logs.maintenance.apply_retention()
        assert len(log.segments) == 1
        assert log.log_start_offset == 6
        node.world.scheduler.advance(1)
        # The closed segments have made room for the snapshot of the roll.
        node.logs.maintenance.apply_retention()
        assert log.log_start_offset == 9
        assert log.size_bytes == 0

    def test_one_log_does_not_end_the_run_over_all_logs(self) -> None:
        node = self.filled_node("a", "b", "c", retention_ms=1000)
        for _ in range(2):
            node.files.fail_next("rename", no_descriptors(), path_contains="/a-0/")
        node.files.capacity_bytes = node.files.used_bytes()
        node.logs.maintenance.apply_retention()
        assert [log.log_start_offset for log in node.logs][1:] == [6, 6]
        assert not node.logs.directories[0].is_offline

    def test_a_file_that_cannot_be_opened_now_does_not_end_the_run(self) -> None:
        node = self.filled_node("a", "b", retention_ms=1000)
        node.stop()
        node.start()
        for _ in range(2):
            node.files.fail_next("open", no_descriptors(), path_contains="/a-0/")
        node.logs.maintenance.apply_retention()
        assert [node.create(topic).log_start_offset for topic in "ab"] == [0, 9]
        node.logs.maintenance.apply_retention()
        assert [node.create(topic).log_start_offset for topic in "ab"] == [9, 9]


class TestAborts:
    """The marker fits into the log file, its entry does not fit into the index."""

    def aborted_on_full_disk(self, error: OSError | None = None) -> LogBench:
        """Producer 7 has aborted the record at offset 0."""
        bench = LogBench()
        bench.append(b"aborted", producer_id=7, producer_epoch=0, sequence=0, transactional=True)
        if error is None:
            bench.files.fail_next("append", full(), path_contains=".txnindex")
        else:
            bench.files.fail_next("open", error, path_contains=".txnindex")
        bench.end_transaction(7, commit=False)
        bench.advance_high_watermark()
        return bench

    @staticmethod
    def aborted_producers(bench: LogBench) -> list[int]:
        log = bench.log
        read = log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset)
        aborted = log.aborted_in_read(read, start=0, end_offset=log.log_end_offset)
        return [transaction.producer_id for transaction in aborted]

    @pytest.mark.parametrize("error", [None, no_descriptors()])
    def test_an_abort_without_room_for_its_entry_is_known(self, error: OSError | None) -> None:
        bench = self.aborted_on_full_disk(error)
        assert bench.failures == []
        assert bench.log.last_stable_offset == 2
        assert self.aborted_producers(bench) == [7]

    def test_aborts_before_and_behind_it_are_known_in_their_order(self) -> None:
        bench = LogBench()
        for producer_id in range(1, 6):
            bench.append(b"x", producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True)
            if producer_id in (2, 3):
                bench.files.fail_next("append", full(), path_contains=".txnindex")
            bench.end_transaction(producer_id, commit=False)
            bench.advance_high_watermark()
            assert self.aborted_producers(bench) == list(range(1, producer_id + 1))
        bench.log.flush()
        assert self.aborted_producers(bench) == [1, 2, 3, 4, 5]
        bench.restart(clean=True)
        assert self.aborted_producers(bench) == [1, 2, 3, 4, 5]

    def test_the_next_flush_writes_the_entry(self) -> None:
        bench = self.aborted_on_full_disk()
        assert bench.log.flush().error is None
        assert bench.log.recovery_point == 2
        bench.restart(clean=True)
        assert self.aborted_producers(bench) == [7]

    def test_no_flush_succeeds_without_the_entry(self) -> None:
        bench = self.aborted_on_full_disk()
        bench.files.fail_next("append", full(), path_contains=".txnindex")
        assert isinstance(bench.log.flush().error, DiskFull)
        assert bench.failures == []
        assert bench.log.recovery_point == 0
        assert bench.log.flush().error is None
        assert bench.log.recovery_point == 2

    def test_a_full_disk_in_an_fsync_is_still_a_failure(self) -> None:
        bench = self.aborted_on_full_disk()
        bench.files.fail_next("sync", full())
        assert bench.log.flush().error is not None
        assert len(bench.failures) == 1

    @pytest.mark.parametrize("rolls", [False, True])
    def test_a_crash_before_the_entry_is_written_loses_nothing(self, rolls: bool) -> None:
        bench = self.aborted_on_full_disk()
        if rolls:
            for _ in range(3):
                bench.files.fail_next("append", full(), path_contains=".txnindex")
            bench.log.roll()
            bench.append(b"later")
            assert bench.log.recovery_point == 0
        bench.restart(clean=False)
        assert self.aborted_producers(bench) == [7]

    def test_recovery_on_a_full_disk_knows_the_abort(self) -> None:
        bench = self.aborted_on_full_disk()
        bench.files.fail_next("append", full(), path_contains=".txnindex")
        bench.restart(clean=False)
        assert self.aborted_producers(bench) == [7]
        bench.log.flush()
        bench.restart(clean=True)
        assert self.aborted_producers(bench) == [7]

    def test_truncation_forgets_the_abort(self) -> None:
        bench = self.aborted_on_full_disk()
        bench.log.truncate_to(1)
        bench.end_transaction(7, commit=True)
        bench.advance_high_watermark()
        assert self.aborted_producers(bench) == []

    def test_a_shutdown_without_the_entry_is_not_clean(self) -> None:
        node = Node()
        node.start()
        log = node.create("t")
        records = batch(b"aborted", producer_id=7, producer_epoch=0, sequence=0, transactional=True)
        log.append_built(records, leader_epoch=0, now_ms=1)
        for _ in range(5):
            node.files.fail_next("append", full(), path_contains=".txnindex")
        marker = build_end_transaction_marker(
            is_commit=False, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp_ms=5
        )
        log.append_built(marker, leader_epoch=0, now_ms=5)
        node.stop()
        assert not node.files.exists(f"/d1/{CLEAN_SHUTDOWN_FILE}")
        node.kill()
        node.start()
        log = node.create("t")
        log.update_high_watermark(2)
        read = log.read(0, max_bytes=1 << 20, end_offset=2)
        assert [entry.producer_id for entry in log.aborted_in_read(read, start=0, end_offset=2)] == [7]

    def test_compaction_knows_the_abort(self) -> None:
        bench = LogBench(cleanup_policy="compact")
        record = Record(key=b"k", value=b"aborted", timestamp=1000)
        bench.append_bytes(
            build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        bench.log.roll()
        bench.world.scheduler.run()
        bench.files.fail_next("append", full(), path_contains=".txnindex")
        bench.end_transaction(7, commit=False)
        bench.advance_high_watermark()
        plan = plan_cleaning(bench.log, measure(bench.log, checkpoint=0, now_ms=10**6), now_ms=10**6)
        assert [entry.producer_id for entry in plan.unwritten_aborted] == [7]
        cleaning = Cleaning(bench.files, plan, OffsetMap(capacity=10, secret=bytes(16)))
        group = None
        while group is None:
            group = cleaning.step(10**6, 64).group
        assert b"aborted" not in bench.files.read_bytes(group.segment.path)

    def test_a_log_that_is_opened_again_knows_the_abort(self) -> None:
        """The file of the active segment is truncated by another program; the entry is of the segment before."""
        node = Node()
        node.start()
        log = node.create("t")
        records = batch(b"aborted", producer_id=7, producer_epoch=0, sequence=0, transactional=True)
        log.append_built(records, leader_epoch=0, now_ms=1)
        for _ in range(2):
            node.files.fail_next("append", full(), path_contains=".txnindex")
        marker = build_end_transaction_marker(
            is_commit=False, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp_ms=5
        )
        log.append_built(marker, leader_epoch=0, now_ms=5)
        log.update_high_watermark(2)
        log.roll()
        node.append(log, b"later")
        assert log.segments[0].transaction_index.unwritten
        log.files.failures.fail_log("another program has truncated a file")
        node.world.scheduler.run()
        again = node.create("t")
        assert again is not log
        read = again.read(0, max_bytes=1 << 20, end_offset=2)
        assert [entry.producer_id for entry in again.aborted_in_read(read, start=0, end_offset=2)] == [7]


def test_without_descriptors_a_forgotten_batch_is_looked_for_again() -> None:
    """A snapshot has the last batch of a producer only. The log has the others, and could not be read at first."""
    bench = LogBench()
    now_ms = bench.world.clock.now_ms()
    sent = [
        batch(b"%d" % number, producer_id=7, producer_epoch=0, sequence=number, timestamp=now_ms) for number in range(3)
    ]
    for built in sent:
        bench.append_bytes(bytearray(built))
    log = bench.restart(clean=True)
    for _ in range(2):
        bench.files.fail_next("open", no_descriptors(), path_contains=".log")
    with pytest.raises(StorageError):
        bench.append_bytes(bytearray(sent[0]))
    assert bench.failures == []
    assert bench.append_bytes(bytearray(sent[0])).duplicate
    assert log.log_end_offset == 3
