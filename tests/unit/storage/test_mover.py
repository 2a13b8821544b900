"""Carrying a partition to another directory while it is written to."""

from __future__ import annotations

import errno

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.slices import finish
from ottla.records.build import build_batch
from ottla.records.control import build_end_transaction_marker
from ottla.records.record import Record
from ottla.storage.leader_epochs import EpochStart
from ottla.storage.log import PartitionLog
from tests.unit.storage.helpers import batch, log_config, offsets_of, values_of
from tests.unit.storage.test_manager import TOPIC_ID, Node

PARTITION = TopicPartition("t", 0)


def started() -> Node:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    log = node.create("t", segment_bytes=1000)
    for number in range(50):
        node.append(log, b"value-%02d" % number)
    log.update_high_watermark(log.log_end_offset)
    return node


def names(node: Node, path: str, ending: str = "") -> list[str]:
    return [name for name in node.files.list_directory(path) if name.startswith("t-0") and name.endswith(ending)]


def test_a_partition_moves_with_everything_it_has() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert names(node, "/d2") == ["t-0"]
    assert names(node, "/d1", "-delete")
    assert node.logs.get(PARTITION) is log
    assert log.directory == "/d2/t-0"
    assert [directory.partition_count for directory in node.logs.directories] == [0, 1]
    assert offsets_of(log) == list(range(50))
    assert (log.high_watermark, log.log_end_offset) == (50, 50)
    node.append(log, b"after")
    assert values_of(log)[-1] == b"after"
    node.world.scheduler.advance(1000)
    assert names(node, "/d1") == []
    node.stop()
    value = node.start().get(PARTITION)
    assert value is not None
    assert offsets_of(value) == list(range(51))
    assert node.logs.topic_id_of(PARTITION) == TOPIC_ID


def test_what_is_appended_during_the_move_moves_too() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    described = finish(node.logs.describe(per_slice=1))
    futures = [replica for directory in described for replica in directory.replicas if replica.is_future]
    assert [replica.offset_lag for replica in futures] == [50]
    for number in range(20):
        node.append(log, b"during-%02d" % number)
        if number % 5 == 0 and node.world.workers.tasks:
            node.world.workers.run_one()
    for _ in range(100):
        node.world.workers.run_all()
        node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    assert offsets_of(log) == list(range(70))


def test_records_deleted_during_the_move_are_not_copied() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    log.advance_log_start_offset(40)
    node.world.scheduler.run()
    for _ in range(100):
        node.world.workers.run_all()
        node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    assert log.log_start_offset == 40
    assert offsets_of(log) == list(range(40, 50))


def test_a_log_that_begins_inside_a_batch_moves_too() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    node.append(log, b"one", b"two", b"three")
    log.update_high_watermark(53)
    log.advance_log_start_offset(51)
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (51, 53, 53)
    node.append(log, b"after")
    assert values_of(log) == [b"one", b"two", b"three", b"after"]


def test_batches_that_are_larger_than_a_segment_move_too() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    before = values_of(log)
    # The batches were appended before `segment.bytes` was reduced.
    log.configure(log_config(segment_bytes=20))
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    assert values_of(log) == before


def test_what_the_log_refuses_ends_the_move_with_a_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "refused")

    monkeypatch.setattr("ottla.storage.mover._append", refuse)
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d1/t-0"
    assert not names(node, "/d2", "-future")
    assert "Cancelled the move of t-0 to /d2" in caplog.text


def test_a_copy_that_could_not_be_made_durable_does_not_take_the_place() -> None:
    node = Node("/d1", "/d2")
    node.start()
    log = node.create("t")
    node.append(log, b"kept")
    node.files.fail_next("sync", OSError(errno.EMFILE, "too many"), path_contains="-future/00000000000000000000.log")
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d1/t-0"
    assert not node.logs.directories[1].is_offline


def test_gaps_of_the_cleaner_are_known_where_the_log_goes_before_it_is_there() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    assert node.logs.cleaner.note_gaps(log)
    # As it was copied from a leader that had cleaned it.
    log.append_as_follower(
        build_batch([Record(key=None, value=b"far", timestamp=1000)], base_offset=99, leader_epoch=0)
    )
    log.update_high_watermark(100)
    real_rename = node.files.rename

    def crash_after_swap(source: str, target: str) -> None:
        real_rename(source, target)
        if target == "/d2/t-0":
            raise KeyboardInterrupt

    node.files.rename = crash_after_swap  # type: ignore[method-assign]
    node.logs.move(PARTITION, "/d2")
    with pytest.raises(KeyboardInterrupt):
        node.world.scheduler.advance(1000)
    node.files.rename = real_rename  # type: ignore[method-assign]
    node.kill()
    value = node.start().get(PARTITION)
    assert value is not None
    assert value.directory == "/d2/t-0"
    assert offsets_of(value) == [*range(50), 99]


def test_a_move_cut_off_by_a_crash_goes_on_at_the_next_start() -> None:
    node = started()
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert names(node, "/d2", "-future")
    node.kill()
    node.start()
    node.world.scheduler.advance(5000)
    log = node.logs.get(PARTITION)
    assert log is not None
    assert log.directory == "/d2/t-0"
    assert offsets_of(log) == list(range(50))
    assert names(node, "/d1") == []
    assert names(node, "/d2") == ["t-0"]


def test_a_crash_in_the_middle_of_the_swap_loses_nothing() -> None:
    node = started()
    real_rename = node.files.rename

    def crash_on_second(source: str, target: str) -> None:
        if target == "/d2/t-0":
            raise KeyboardInterrupt
        real_rename(source, target)

    node.files.rename = crash_on_second  # type: ignore[method-assign]
    node.logs.move(PARTITION, "/d2")
    with pytest.raises(KeyboardInterrupt):
        node.world.scheduler.run()
    node.files.rename = real_rename  # type: ignore[method-assign]
    node.kill()
    log = node.start().get(PARTITION)
    assert log is not None
    assert log.directory == "/d2/t-0"
    assert offsets_of(log) == list(range(50))


def test_a_failing_target_ends_the_move_and_nothing_else() -> None:
    node = started()
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    node.files.break_directory("/d2")
    node.world.workers.immediate = True
    node.world.workers.run_all()
    node.world.scheduler.run()
    log = node.logs.get(PARTITION)
    assert log is not None
    assert log.directory == "/d1/t-0"
    node.append(log, b"goes on")
    assert [directory.is_offline for directory in node.logs.directories] == [False, True]


def test_a_full_target_ends_the_move() -> None:
    node = started()
    node.files.fail_next("append", OSError(errno.ENOSPC, "full"), path_contains="/d2/")
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert node.logs.directory_of(PARTITION) is node.logs.directories[0]
    assert not node.logs.directories[1].is_offline
    assert not names(node, "/d2", "-future")


def test_a_move_that_cannot_begin_is_refused_and_leaves_nothing_behind() -> None:
    node = started()
    node.files.fail_next("write_atomically", OSError(errno.ENOSPC, "full"), path_contains="/d2/")
    with pytest.raises(KafkaError) as caught:
        node.logs.move(PARTITION, "/d2")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert names(node, "/d2") == []


def test_deleting_a_partition_ends_its_move() -> None:
    node = started()
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    node.logs.delete(PARTITION)
    node.world.workers.immediate = True
    node.world.workers.run_all()
    node.world.scheduler.advance(1000)
    assert names(node, "/d1") == names(node, "/d2") == []


def test_what_cannot_be_moved_is_refused() -> None:
    node = started()
    for partition, path, code in (
        (PARTITION, "/elsewhere", ErrorCode.LOG_DIR_NOT_FOUND),
        (TopicPartition("u", 0), "/d2", ErrorCode.REPLICA_NOT_AVAILABLE),
    ):
        with pytest.raises(KafkaError) as caught:
            node.logs.move(partition, path)
        assert caught.value.code == code
    # The log is already in this directory: nothing to do.
    node.logs.move(PARTITION, "/d1")
    assert names(node, "/d1") == ["t-0"]


def test_the_copy_is_durable_before_the_original_goes() -> None:
    node = started()
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert node.logs.directory_of(PARTITION) is node.logs.directories[1]
    node.world.scheduler.advance(1000)
    assert names(node, "/d1") == []
    node.files.lose_unsynced()
    node.kill()
    log = node.start().get(PARTITION)
    assert log is not None
    assert offsets_of(log) == list(range(50))
    assert node.logs.topic_id_of(PARTITION) == TOPIC_ID


def test_a_move_takes_the_time_that_its_rate_asks_for() -> None:
    node = Node("/d1", "/d2", replica_alter_log_dirs_io_max_bytes_per_second="10000")
    node.start()
    log = node.create("t", segment_bytes=2000)
    for _ in range(50):
        node.append(log, b"x" * 1000)
    log.update_high_watermark(log.log_end_offset)
    node.logs.move(PARTITION, "/d2")
    # Five times what is allowed in a second.
    node.world.scheduler.advance(3_000)
    assert names(node, "/d2", "-future")
    node.world.scheduler.advance(4_000)
    assert names(node, "/d2") == ["t-0"]
    assert offsets_of(log) == list(range(50))
    node.stop()


def rewrite(log: PartitionLog, offset: int, count: int) -> None:
    """A new leader does not have what comes after the offset, and writes something else there."""
    log.truncate_to(offset)
    for number in range(count):
        built = build_batch([Record(key=None, value=b"new-%02d" % number, timestamp=1000)])
        log.append_built(built, leader_epoch=1, now_ms=1000)


@pytest.mark.parametrize("steps", range(16))
@pytest.mark.parametrize(("offset", "count"), [(30, 5), (30, 40), (0, 60)])
def test_what_is_cut_off_during_the_move_is_not_in_the_copy(steps: int, offset: int, count: int) -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    for _ in range(steps):
        node.world.scheduler.run()
        if node.world.workers.tasks:
            node.world.workers.run_one()
    rewrite(log, offset, count)
    for _ in range(100):
        node.world.workers.run_all()
        node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    expected = [b"value-%02d" % number for number in range(offset)] + [b"new-%02d" % number for number in range(count)]
    assert values_of(log) == expected
    assert log.epochs.entries == tuple(EpochStart(*entry) for entry in [(0, 0), (1, offset)] if offset or entry[0])


def test_producers_are_known_after_a_move_as_before() -> None:
    node = started()
    log = node.logs.get(PARTITION)
    assert log is not None
    # Its records are deleted, but it may still send its last batch again.
    log.append_built(batch(b"plain", producer_id=8, producer_epoch=0, sequence=0), leader_epoch=0, now_ms=1000)
    log.update_high_watermark(log.log_end_offset)
    log.advance_log_start_offset(log.log_end_offset)
    log.append_built(
        batch(b"aborted", producer_id=7, producer_epoch=0, sequence=0, transactional=True), leader_epoch=0, now_ms=1000
    )
    marker = build_end_transaction_marker(
        is_commit=False, coordinator_epoch=0, producer_id=7, producer_epoch=0, timestamp_ms=1000
    )
    log.append_built(marker, leader_epoch=0, now_ms=1000)
    log.update_high_watermark(log.log_end_offset)
    state = log.producers.state
    state.verifies_transactions = True
    assert log.last_stable_offset == log.log_end_offset
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    assert log.last_stable_offset == log.log_end_offset
    assert log.producers.state.verifies_transactions
    assert {entry.producer_id for entry in log.active_producers()} == {7, 8}


def test_a_copy_is_not_taken_for_the_log_while_the_disk_of_the_original_is_away() -> None:
    node = started()
    node.world.workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert names(node, "/d2", "-future")
    node.kill()
    node.paths = ("/d2",)
    assert node.start().get(PARTITION) is None
    node.kill()
    node.paths = ("/d1", "/d2")
    log = node.start().get(PARTITION)
    assert log is not None
    assert offsets_of(log) == list(range(50))


def test_a_log_that_ends_in_a_gap_moves() -> None:
    """The last segment is empty, and the offsets before its base offset are missing."""
    node = Node("/d1", "/d2")
    node.start()
    log = node.create("t", cleanup_policy="compact", segment_bytes=150)
    for offset in (0, 5, 8):
        log.append_as_follower(bytes(batch(b"x" * 50, base_offset=offset, leader_epoch=offset)))
    assert [segment.base_offset for segment in log.segments] == [0, 5, 8]
    log.truncate_to(8)
    assert log.log_end_offset == 8
    log.update_high_watermark(8)
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    assert log.log_end_offset == log.high_watermark == 8
    node.append(log, b"next")
    assert offsets_of(log) == [0, 5, 8]
    node.stop()
    value = node.start().get(PARTITION)
    assert value is not None
    assert offsets_of(value) == [0, 5, 8]
