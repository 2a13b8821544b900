"""Disks that are full, fail once, or lack descriptors at a bad moment: no record is lost, and other logs go on."""

from __future__ import annotations

import errno

import pytest

from ottla.model.ids import TopicPartition
from ottla.storage.errors import DiskFull, StorageError
from ottla.storage.log import PartitionLog
from tests.unit.storage.helpers import DIRECTORY, LogBench, values_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)
FIRST_SEGMENT = "00000000000000000000.log"
LOG = f"/d1/t-0/{FIRST_SEGMENT}"


def full() -> OSError:
    return OSError(errno.ENOSPC, "no space left on device")


def no_descriptors() -> OSError:
    return OSError(errno.EMFILE, "too many open files")


# Appends that are refused.


def test_an_index_that_cannot_be_opened_refuses_an_append_before_it_is_written() -> None:
    """Otherwise the next batch would follow bytes that no offset belongs to."""
    node = Node()
    node.start()
    for name in ("a", "b", "c", "t"):
        node.append(node.create(name), b"old")
    node.stop()
    node.kill()
    node.start()
    for name in ("a", "b", "c"):
        # Open files that could be closed to make room.
        node.append(node.log_of(name), b"more")
    for _ in range(2):
        node.files.fail_next("open", no_descriptors(), path_contains="/t-0/00000000000000000000.timeindex")
    with pytest.raises(StorageError):
        node.append(node.log_of(), b"refused")
    node.append(node.log_of(), b"acknowledged")
    node.append(node.log_of(), b"the next")
    assert values_of(node.log_of()) == [b"old", b"acknowledged", b"the next"]
    node.kill()
    node.start()
    assert values_of(node.log_of()) == [b"old", b"acknowledged", b"the next"]


def test_the_rest_of_a_failed_write_that_still_cannot_be_cut_off() -> None:
    bench = LogBench()
    bench.append(b"a")
    bench.files.nodes[f"{DIRECTORY}/{FIRST_SEGMENT}"].data += b"half a batch"
    bench.files.fail_next("append", full())
    with pytest.raises(DiskFull):
        bench.append(b"b")
    bench.log.segments.active.release()
    bench.files.fail_next("truncate", full())
    with pytest.raises(DiskFull):
        bench.append(b"c")
    bench.append(b"d")
    assert values_of(bench.log) == [b"a", b"d"]


# Logs out of service at a clean shutdown.


@pytest.mark.parametrize("is_recovered_in_vain", [True, False])
def test_a_damaged_log_whose_recovery_has_not_ended(is_recovered_in_vain: bool) -> None:
    """The next start must find that records are missing, so that another replica leads."""
    node = Node()
    node.start()
    log = node.create("t")
    for value in (b"a", b"b", b"c"):
        node.append(log, value)
    log.flush().result()
    log.update_high_watermark(3)
    node.logs.checkpoint().result()
    # Another program has cut the file.
    del node.files.nodes[LOG].data[log.segments.active.size // 3 :]
    if is_recovered_in_vain:
        node.files.fail_next("list", OSError(errno.EIO, "once"), path_contains="/t-0")
        log.files.find_damage(0)
    else:
        node.world.workers.immediate = False
        log.files.find_damage(0)
        assert node.world.workers.tasks
        node.world.workers.tasks.clear()
        node.world.workers.immediate = True
    assert node.logs.get(PARTITION) is None
    node.stop()
    node.kill()
    assert not node.start().had_clean_shutdown
    # No offset is given twice.
    assert node.log_of().log_end_offset == 3


def test_a_log_that_could_not_be_opened_after_a_crash_is_recovered_by_the_next_start() -> None:
    node = Node(log_index_interval_bytes="1")
    node.start()
    log = node.create("t", index_interval_bytes=1)
    for number in range(200):
        node.append(log, b"%03d" % number)
    size = log.segments.active.size // 200
    node.kill()
    # The power failed: a page was not written. And a file of the log cannot be read.
    node.files.nodes[LOG].data[size : 2 * size] = bytes(size)
    denied = PermissionError(errno.EACCES, "permission denied")
    node.files.fail_next("read", denied, path_contains="/t-0/leader-epoch-checkpoint")
    node.start()
    assert node.logs.is_refused(PARTITION)
    node.stop()
    node.kill()
    assert not node.start().had_clean_shutdown
    assert values_of(node.log_of()) == [b"000"]


# Moves to another directory.


@pytest.mark.parametrize("error", [OSError(errno.EIO, "input/output error"), full()], ids=["broken", "full"])
def test_a_copy_that_cannot_take_its_place(error: OSError) -> None:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    log = node.create("t")
    node.append(log, b"a")
    node.files.fail_next("rename", error, path_contains="-future")
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.advance(3000)
    assert not node.logs.directories[0].is_offline
    assert node.logs.get(PARTITION) is log
    node.append(log, b"acknowledged")
    log.flush().result()
    node.kill()
    node.start()
    assert values_of(node.log_of()) == [b"a", b"acknowledged"]


def moved_during_a_flush() -> tuple[Node, PartitionLog]:
    """The former files are being flushed, because `flush.messages` demands it, when the copy takes their place."""
    node = Node("/d1", "/d2")
    node.start()
    log = node.create("t", flush_messages=1)
    node.append(log, b"old")
    workers, scheduler = node.world.workers, node.world.scheduler
    workers.immediate = False
    node.logs.move(PARTITION, "/d2")
    move = node.logs._mover._moves[PARTITION]
    while not move.is_flushed:
        scheduler.run_turn()
        if workers.tasks:
            workers.run_one()
    node.append(log, b"acknowledged")
    while True:
        scheduler.run()
        others = [task for task in workers.tasks if "sync_and_check" not in task[0].__qualname__]
        if not others:
            break
        workers.tasks.remove(others[0])
        workers.tasks.appendleft(others[0])
        workers.run_one()
    assert node.logs.directory_of(PARTITION) is node.logs.directories[1]
    return node, log


def test_a_flush_of_the_former_files_is_no_flush_of_the_log() -> None:
    node, log = moved_during_a_flush()
    assert log.recovery_point < log.log_end_offset
    while log.recovery_point < log.log_end_offset:
        node.world.workers.run_one()
        node.world.scheduler.run()
    assert b"acknowledged" in node.files.nodes[f"/d2/t-0/{FIRST_SEGMENT}"].synced


def test_the_former_disk_fails_during_its_last_flush() -> None:
    node, _ = moved_during_a_flush()
    broken = OSError(errno.EIO, "input/output error")
    node.files.break_directory("/d1", broken)
    node.files.fail_next("sync", broken, path_contains=f"t-0/{FIRST_SEGMENT}")
    node.world.workers.run_one()
    node.world.scheduler.run()
    assert not node.logs.directories[1].is_offline


# Starts.


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_node_starts_on_a_full_disk(is_clean: bool) -> None:
    node = Node("/d1", log_index_interval_bytes="1")
    node.start()
    log = node.create("t", index_interval_bytes=1)
    for number in range(20):
        node.append(log, b"%d" % number)
    node.logs.checkpoint()
    node.world.scheduler.run()
    if is_clean:
        node.stop()
    node.kill()
    node.files.capacity_bytes = node.files.used_bytes()
    node.start()
    assert not node.logs.directories[0].is_offline
    assert len(values_of(node.log_of())) == 20


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_log_that_cannot_be_opened_for_now_is_refused_alone(code: int) -> None:
    node = Node("/d1", "/d2")
    node.start()
    for name in "abct":
        node.append(node.create(name), b"x" * 70_000)
    node.kill()
    for _ in range(2):
        node.files.fail_next("open", OSError(code, "not now"), path_contains=f"/t-0/{FIRST_SEGMENT}")
    node.start()
    assert node.logs.is_refused(PARTITION)
    assert not any(directory.is_offline for directory in node.logs.directories)


# Renames: a directory without a free place needs a block for a longer name.


def test_a_topic_is_deleted_to_make_room() -> None:
    node = Node(log_segment_delete_delay_ms="1000")
    node.start()
    for name in "tu":
        node.append(node.create(name), b"x")
    node.files.fail_next("rename", full(), path_contains="/t-0")
    node.logs.delete(PARTITION)
    node.world.scheduler.advance(2000)
    assert not node.logs.directories[0].is_offline
    assert not [name for name in node.files.list_directory("/d1") if name.startswith("t-0")]
    node.append(node.create("t"), b"new")


def test_a_partition_moves_away_from_a_full_disk() -> None:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    log = node.create("t")
    for value in (b"x", b"y"):
        node.append(log, value)
    node.files.fail_next("rename", full(), path_contains="/d1/t-0")
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.advance(5000)
    assert not any(directory.is_offline for directory in node.logs.directories)
    assert node.log_of().directory == "/d2/t-0"
    assert values_of(node.log_of()) == [b"x", b"y"]


def test_a_move_to_a_full_disk_ends() -> None:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    node.append(node.create("t"), b"x")
    node.files.fail_next("append", full(), path_contains="/d2/t-0")
    node.files.fail_next("rename", full(), path_contains="/d2/t-0")
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.advance(5000)
    assert not any(directory.is_offline for directory in node.logs.directories)
    assert not [name for name in node.files.list_directory("/d2") if name.startswith("t-0")]


def test_retention_on_a_full_disk() -> None:
    node = Node(log_segment_delete_delay_ms="1000")
    node.start()
    log = node.create("t", segment_bytes=200, retention_ms=1)
    for number in range(4):
        node.append(log, b"%d" % number * 60)
    log.update_high_watermark(4)
    node.files.fail_next("rename", full(), path_contains="/t-0/00000000000000000001")
    node.logs.maintenance.apply_retention()
    node.world.scheduler.run()
    log.invariants()
    node.logs.maintenance.apply_retention()
    node.world.scheduler.advance(61_000)
    log.invariants()
    assert not node.logs.directories[0].is_offline
    assert log.log_start_offset == 4
    assert len([name for name in node.files.list_directory("/d1/t-0") if ".log" in name]) == 1


# Truncations and flushes.


@pytest.mark.parametrize("index", [".timeindex", ".txnindex"])
def test_a_truncation_that_runs_out_of_descriptors_fails_the_log_alone(index: str) -> None:
    bench = LogBench(index_interval_bytes=1)
    for number in range(3):
        bench.append(
            b"%d" % number,
            timestamp=1000 + number,
            producer_id=5,
            producer_epoch=0,
            sequence=number,
            transactional=True,
        )
    bench.end_transaction(5, commit=False)
    for value in (b"x", b"y"):
        bench.append(value, timestamp=1010)
    bench.advance_high_watermark()
    bench.restart(clean=True)
    for _ in range(2):
        bench.files.fail_next("open", no_descriptors(), path_contains=index)
    with pytest.raises(StorageError):
        bench.log.truncate_to(5)
    assert bench.failures == []


def test_a_snapshot_that_goes_while_a_worker_is_about_to_sync_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = LogBench(segment_bytes=200)
    bench.append(b"a" * 60, producer_id=1, producer_epoch=0, sequence=0)
    bench.world.workers.immediate = False
    for sequence in (1, 2):
        bench.append(b"b" * 60, producer_id=1, producer_epoch=0, sequence=sequence)
    exists, is_truncated = bench.files.exists, False

    def exists_for_now(path: str) -> bool:
        nonlocal is_truncated
        file_exists = exists(path)
        if file_exists and path.endswith(".snapshot") and not is_truncated:
            is_truncated = True
            bench.log.truncate_to(0)
        return file_exists

    monkeypatch.setattr(bench.files, "exists", exists_for_now)
    bench.world.workers.run_all()
    bench.world.scheduler.run()
    assert is_truncated
    assert bench.failures == []
