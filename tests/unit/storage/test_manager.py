"""All logs of a node: directories, creation, deletion, restart."""

from __future__ import annotations

import errno
import gc

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.slices import finish
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.errors import DirectoryRefused, DiskFull, LogDirectoryOffline
from ottla.storage.log import PartitionLog
from ottla.storage.manager import LogManager
from tests.unit.storage.helpers import log_config, values_of
from tests.unit.storage.logs_node import TOPIC_ID, Node


def test_a_clean_restart_finds_everything() -> None:
    node = Node()
    node.start()
    node.append(node.create("t"), b"a", b"b")
    node.stop()
    assert node.files.exists("/d1/.kafka_cleanshutdown")
    logs = node.start()
    assert logs.had_clean_shutdown
    assert logs.previous_broker_epoch == 5
    assert not node.files.exists("/d1/.kafka_cleanshutdown")
    log = logs.get(TopicPartition("t", 0))
    assert log is not None
    assert values_of(log) == [b"a", b"b"]
    assert log.recovery_point == 2
    assert logs.topic_id_of(TopicPartition("t", 0)) == TOPIC_ID


def test_a_crash_is_noticed_and_loses_nothing_written() -> None:
    node = Node()
    node.start()
    node.append(node.create("t"), b"a", b"b")
    node.kill()
    logs = node.start()
    assert not logs.had_clean_shutdown
    assert logs.previous_broker_epoch == -1
    log = logs.get(TopicPartition("t", 0))
    assert log is not None
    assert values_of(log) == [b"a", b"b"]


def test_new_partitions_go_to_the_directory_with_the_fewest() -> None:
    node = Node("/d1", "/d2")
    node.start()
    for number in range(4):
        node.create("t", number)
    assert [directory.partition_count for directory in node.logs.directories] == [2, 2]
    node.stop()
    # A new, empty disk receives everything until it is even.
    node.paths = ("/d1", "/d2", "/d3")
    node.start()
    node.create("u", 0)
    node.create("u", 1)
    assert [directory.partition_count for directory in node.logs.directories] == [2, 2, 2]


def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    node = Node()
    node.start()
    node.stop()
    with pytest.raises(DirectoryRefused, match="belongs to node 1, not 2"):
        node.start(node_id=2)
    with pytest.raises(DirectoryRefused, match="belongs to cluster c1, not c2"):
        node.start(cluster_id="c2")
    assert node.files.read_bytes("/d1/meta.properties").decode().splitlines()[1] == "cluster.id=c1"
    node.start()


def test_a_second_node_on_the_same_directory_is_refused() -> None:
    node = Node()
    node.start()
    with pytest.raises(DirectoryRefused, match="locked by another process"):
        node.start()


def test_a_partition_in_two_directories_is_refused() -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.append(node.create("t"), b"a")
    node.stop()
    node.files.make_directories("/d2/t-0")
    node.files.write_atomically("/d2/t-0/00000000000000000000.log", b"")
    with pytest.raises(DirectoryRefused, match="t-0 is in both /d1 and /d2"):
        node.start()
    assert not node.files.locks


def test_a_directory_that_is_a_copy_is_refused() -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.stop()
    node.files.write_atomically("/d2/meta.properties", node.files.read_bytes("/d1/meta.properties"))
    with pytest.raises(DirectoryRefused, match=r"same directory\.id"):
        node.start()


def test_another_topic_id_on_disk_is_refused() -> None:
    node = Node()
    node.start()
    node.create("t")
    with pytest.raises(KafkaError) as caught:
        node.logs.get_or_create(TopicPartition("t", 0), Uuid.ONE, log_config())
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_deletion_renames_at_once_and_removes_later() -> None:
    node = Node(log_segment_delete_delay_ms="5000")
    node.start()
    log = node.create("t")
    node.append(log, b"a")
    region = log.read(0, max_bytes=100, end_offset=1).region
    assert region is not None
    node.logs.delete(TopicPartition("t", 0))
    assert node.logs.get(TopicPartition("t", 0)) is None
    names = [name for name in node.files.list_directory("/d1") if name.startswith("t-0")]
    assert len(names) == 1
    assert names[0].startswith("t-0.")
    assert names[0].endswith("-delete")
    # A fetch that was answered before is still being sent.
    assert len(region.read()) == len(region)
    with pytest.raises(KafkaError):
        node.append(log, b"b")
    # The topic may come back before the old one is gone.
    assert node.create("t").log_end_offset == 0
    node.world.scheduler.advance(4999)
    assert node.files.exists(f"/d1/{names[0]}")
    node.world.scheduler.advance(1)
    assert not node.files.exists(f"/d1/{names[0]}")


def test_a_deleted_log_is_freed_without_the_garbage_collector() -> None:
    """A node excludes the objects of its start from collection: a cycle among them would stay until its end."""
    node = Node(log_segment_delete_delay_ms="5000")
    node.start()
    log = node.create("t")
    node.append(log, b"a")
    log.flush()
    del log
    gc.collect()
    gc.disable()
    try:
        before = logs_in_memory()
        node.logs.delete(TopicPartition("t", 0))
        node.world.scheduler.advance(5000)
        assert logs_in_memory() == before - 1
    finally:
        gc.enable()


def logs_in_memory() -> int:
    return sum(isinstance(tracked, PartitionLog) for tracked in gc.get_objects())


def test_a_deletion_cut_off_by_a_crash_is_finished() -> None:
    node = Node(log_segment_delete_delay_ms="5000")
    node.start()
    node.append(node.create("t"), b"a")
    node.logs.delete(TopicPartition("t", 0))
    node.kill()
    node.start()
    assert node.logs.get(TopicPartition("t", 0)) is None
    node.world.scheduler.advance(5000)
    assert not [name for name in node.files.list_directory("/d1") if name.startswith("t-0")]


def test_a_failed_directory_goes_out_of_service_alone() -> None:
    node = Node("/d1", "/d2")
    node.start()
    first, second = node.create("t", 0), node.create("t", 1)
    failed: list[TopicPartition] = []
    node.logs.on_directory_failure.append(lambda directory, partitions: failed.extend(partitions))
    node.files.break_directory("/d1")
    with pytest.raises(LogDirectoryOffline):
        node.append(first, b"a")
    assert failed == [TopicPartition("t", 0)]
    assert node.logs.get(TopicPartition("t", 0)) is None
    with pytest.raises(LogDirectoryOffline):
        first.read(0, max_bytes=1, end_offset=1)
    node.append(second, b"b")
    assert values_of(second) == [b"b"]
    assert [directory.is_offline for directory in node.logs.directories] == [True, False]
    assert node.create("u").directory.startswith("/d2/")
    described = finish(node.logs.describe(per_slice=1))
    assert described[0].error is not None
    assert described[0].replicas == []
    assert [replica.topic_partition for replica in described[1].replicas] == [("t", 1), ("u", 0)]
    node.stop()
    assert node.files.exists("/d2/.kafka_cleanshutdown")
    assert "/d1/.kafka_cleanshutdown" not in node.files.nodes


def test_a_directory_broken_at_start_is_left_out_and_no_directory_at_all_is_refused() -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.create("t", 0)
    node.create("t", 1)
    node.stop()
    node.files.break_directory("/d1")
    logs = node.start()
    assert [log.topic_partition for log in logs] == [("t", 1)]
    node.stop()
    node.files.break_directory("/d2")
    with pytest.raises(DirectoryRefused, match="None of the log directories can be used"):
        node.start()


def test_a_full_disk_refuses_appends_and_recovers() -> None:
    node = Node()
    node.start()
    log = node.create("t")
    node.append(log, b"a" * 100)
    node.files.capacity_bytes = node.files.used_bytes() + 50
    with pytest.raises(DiskFull) as caught:
        node.append(log, b"b" * 100)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert caught.value.code.retriable
    assert values_of(log) == [b"a" * 100]
    # Checkpoints cannot be written either; that is no reason to give up the directory.
    node.logs.checkpoint()
    assert not node.logs.directories[0].is_offline
    node.files.capacity_bytes = None
    node.append(log, b"c")
    assert values_of(log) == [b"a" * 100, b"c"]


def test_an_error_on_fsync_takes_the_directory_out() -> None:
    node = Node("/d1", "/d2")
    node.start()
    log = node.create("t")
    node.append(log, b"a")
    node.files.fail_next("sync", OSError(errno.EIO, "input/output error"))
    assert isinstance(log.flush().error, LogDirectoryOffline)
    assert node.logs.directories[0].is_offline


def test_checkpoints_are_written_and_used() -> None:
    node = Node()
    node.start()
    log = node.create("t")
    for value in (b"a", b"b", b"c", b"d"):
        node.append(log, value)
    log.update_high_watermark(3)
    log.advance_log_start_offset(2)
    log.flush()
    node.logs.checkpoint()
    assert node.files.read_bytes("/d1/recovery-point-offset-checkpoint") == b"0\n1\nt 0 4\n"
    assert node.files.read_bytes("/d1/replication-offset-checkpoint") == b"0\n1\nt 0 3\n"
    assert node.files.read_bytes("/d1/log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"
    node.kill()
    reopened = node.start().get(TopicPartition("t", 0))
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.high_watermark, reopened.log_end_offset) == (2, 3, 4)


@pytest.mark.parametrize("damage", [b"", b"1\n0\n", b"0\n5\nt 0 1\n", b"0\n1\nt zero 1\n", b"\xff\xfe"])
def test_a_damaged_checkpoint_counts_as_empty(damage: bytes) -> None:
    node = Node()
    node.start()
    node.append(node.create("t"), b"a")
    node.stop()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        node.files.write_atomically(f"/d1/{name}", damage)
    node.files.remove("/d1/.kafka_cleanshutdown")
    value = node.start().get(TopicPartition("t", 0))
    assert value is not None
    assert values_of(value) == [b"a"]


def test_maintenance_flushes_checkpoints_expires_and_deletes() -> None:
    node = Node(log_initial_task_delay_ms="100", log_retention_check_interval_ms="1000")
    node.start()
    log = node.create("t", flush_ms=500, retention_ms=2000, file_delete_delay_ms=0)
    node.append(log, b"a")
    log.update_high_watermark(1)
    assert log.recovery_point == 0
    node.world.scheduler.advance(60_000)
    assert log.recovery_point == 1
    assert node.files.exists("/d1/recovery-point-offset-checkpoint")
    # The record's timestamp is long past: all expired, so the segment was closed and removed.
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    assert not node.files.exists("/d1/t-0/00000000000000000000.log")
    timers = node.world.scheduler.timers
    node.stop()
    assert node.world.scheduler.timers < timers


# Several threads for short logs would only wait for one another.
@pytest.mark.parametrize(("size", "workers"), [(100_000, 2), (1, 1)])
def test_recovery_uses_no_more_workers_than_configured(size: int, workers: int) -> None:
    node = Node(num_recovery_threads_per_data_dir="2")
    node.start()
    for number in range(5):
        node.append(node.create("t", number), b"a" * size)
    node.kill()
    node.world.workers.immediate = False
    config = BrokerConfig.embedded({"log.dirs": "/d1", "num.recovery.threads.per.data.dir": "2"})
    logs = LogManager(node.world.world, config, cluster_id="c1", node_id=1)
    opened = logs.open()
    seen = []
    while node.world.workers.tasks:
        seen.append(len(node.world.workers.tasks))
        node.world.workers.run_one()
    assert max(seen) == workers
    assert opened.done
    assert len(logs) == 5


def test_stray_partitions_are_set_aside_and_kept() -> None:
    node = Node()
    node.start()
    node.append(node.create("t"), b"a")
    node.logs.set_aside_stray(TopicPartition("t", 0))
    node.stop()
    assert len(node.start()) == 0
    assert [name for name in node.files.list_directory("/d1") if name.endswith("-stray")]


def test_without_room_for_the_snapshot_the_shutdown_is_not_called_clean() -> None:
    node = Node()
    node.start()
    log = node.create("t")
    now = node.world.clock.now_ms()
    built = build_batch([Record(key=None, value=b"a", timestamp=now)], producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_built(bytearray(built), leader_epoch=0, now_ms=now)
    node.files.fail_next("write_atomically", OSError(errno.ENOSPC, "full"), path_contains=".snapshot")
    node.stop()
    assert not node.files.exists("/d1/.kafka_cleanshutdown")
    value = node.start().get(TopicPartition("t", 0))
    assert value is not None
    # The producer is known all the same: the log was read.
    assert [producer.last_sequence for producer in value.active_producers()] == [0]


def test_a_broken_directory_does_not_fail_logs_of_another() -> None:
    node = Node("/d1", "/d2")
    config = BrokerConfig.embedded({"log.dirs": "/d1,/d2"})
    node.logs = LogManager(node.world.world, config, cluster_id="c1", node_id=1, open_files_max=3)
    node.logs.open().result()
    logs = [node.create("t", number, index_interval_bytes=0) for number in range(6)]
    for _ in range(3):
        for log in logs:
            node.append(log, b"a")
    node.files.break_directory("/d1")
    for log in logs:
        if log.directory.startswith("/d2/"):
            node.append(log, b"b")
            assert len(values_of(log)) == 4
    assert not node.logs.directories[1].is_offline


def test_a_log_in_a_failed_directory_is_not_created_elsewhere() -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.append(node.create("t", 0), b"precious")
    failed_id = node.logs.directories[0].directory_id
    node.logs.directories[0].fail(OSError(errno.EIO, "broken"))
    with pytest.raises(LogDirectoryOffline):
        node.create("t", 0)
    # Another topic of the same name has nothing to do with it.
    assert node.logs.get_or_create(TopicPartition("t", 0), Uuid.ONE, log_config()).directory == "/d2/t-0"
    node.logs.delete(TopicPartition("t", 0))
    # After a restart the content of the broken directory is unknown; the metadata names its partitions.
    node.kill()
    node.files.break_directory("/d1")
    node.start()
    with pytest.raises(LogDirectoryOffline):
        node.logs.get_or_create(TopicPartition("t", 0), TOPIC_ID, log_config(), directory_id=failed_id)
    # A new partition has no directory yet.
    unassigned = node.logs.get_or_create(TopicPartition("u", 0), TOPIC_ID, log_config(), directory_id=Uuid.ZERO)
    assert unassigned.directory == "/d2/u-0"


def test_a_wish_for_a_directory_is_remembered_until_the_partition_comes() -> None:
    node = Node("/d1", "/d2")
    node.start()
    with pytest.raises(KafkaError):
        node.logs.move(TopicPartition("t", 0), "/d2")
    assert node.create("t").directory == "/d2/t-0"


def test_flush_ms_of_a_topic_works_with_the_default_scheduler_interval() -> None:
    node = Node(log_initial_task_delay_ms="0")
    node.start()
    log = node.create("t", flush_ms=3000)
    node.append(log, b"a")
    node.world.scheduler.advance(2900)
    assert log.recovery_point == 0
    node.world.scheduler.advance(1100)
    assert log.recovery_point == 1


def test_changed_intervals_hold_from_the_next_turn_on() -> None:
    node = Node(log_initial_task_delay_ms="10", log_retention_check_interval_ms="5000")
    node.start()
    log = node.create("t", retention_ms=1)
    node.world.scheduler.advance(100)
    node.append(log, b"a")
    log.update_high_watermark(1)
    node.logs.config = BrokerConfig.embedded({"log.dirs": "/d1", "log.retention.check.interval.ms": "200"})
    node.world.scheduler.advance(4800)
    assert log.log_start_offset == 0
    node.world.scheduler.advance(200)
    assert log.log_start_offset == 1
    node.append(log, b"b")
    log.update_high_watermark(2)
    node.world.scheduler.advance(200)
    assert log.log_start_offset == 2


def test_running_out_of_descriptors_is_no_fault_of_the_disk() -> None:
    node = Node()
    node.start()
    logs = [node.create("t", number) for number in range(4)]
    for log in logs:
        node.append(log, b"a")
    created = node.create("u")
    held = len(node.logs.pool)
    # After one failure the pool closes other files and retries.
    node.files.fail_next("open", OSError(errno.EMFILE, "too many open files"))
    node.append(created, b"b")
    assert len(node.logs.pool) < held
    # Two failures in a row fail the client's request, which the client retries.
    logs[0].segments.active.close()
    for _ in range(2):
        node.files.fail_next("open", OSError(errno.EMFILE, "too many open files"))
    with pytest.raises(KafkaError) as caught:
        node.append(logs[0], b"b")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not logs[0].is_offline
    node.append(logs[0], b"b")
    assert values_of(logs[0]) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("properties", "paths"),
    [
        ({"log.dir": "/one"}, ["/one"]),
        ({"log.dirs": "/two,/three"}, ["/two", "/three"]),
        ({"log.dir": "/one", "log.dirs": "/two, /three"}, ["/two", "/three"]),
    ],
)
def test_log_dirs_is_preferred_and_log_dir_stands_in(properties: dict[str, str], paths: list[str]) -> None:
    node = Node()
    logs = LogManager(node.world.world, BrokerConfig.embedded(properties), cluster_id="c1", node_id=1)
    logs.open().result()
    assert [directory.path for directory in logs.directories] == paths
    assert all(node.files.exists(f"{path}/meta.properties") for path in paths)


def test_a_power_cut_after_a_clean_shutdown_loses_nothing() -> None:
    node = Node()
    node.start()
    log = node.create("t")
    now = node.world.clock.now_ms()
    built = build_batch([Record(key=None, value=b"a", timestamp=now)], producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_built(bytearray(built), leader_epoch=0, now_ms=now)
    node.stop()
    node.files.lose_unsynced()
    logs = node.start()
    assert logs.had_clean_shutdown
    value = logs.get(TopicPartition("t", 0))
    assert value is not None
    assert values_of(value) == [b"a"]
    assert [producer.last_sequence for producer in value.active_producers()] == [0]
