"""Log files that were removed while the node was stopped: the loss is noticed, and no offset is given twice."""

from __future__ import annotations

import contextlib
import logging

import pytest

from ottla.model.ids import TopicPartition
from ottla.storage.errors import CorruptLog, StorageError
from ottla.storage.log import PartitionLog
from tests.unit.storage.helpers import DIRECTORY, LogBench, batch, offsets_of, read_all
from tests.unit.storage.logs_node import Node


def filled(segments: int) -> LogBench:
    bench = LogBench(segment_bytes=400, index_interval_bytes=1)
    while len(bench.log.segments) < segments or bench.log.log_end_offset % 3 != 2:
        bench.append(b"value-%02d" % bench.log.log_end_offset * 5)
    return bench


def log_file(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("clean", [True, False])
def test_a_removed_active_segment_gives_no_offset_twice(segments: int, clean: bool) -> None:
    bench = filled(segments)
    log = bench.log
    log.flush()
    end, base = log.log_end_offset, log.segments.active.base_offset
    if clean:
        log.close()
    else:
        log.segments.active.syncable_files()
    bench.files.remove(log_file(base))
    log = bench.open(clean=clean, recovery_point=log.recovery_point)
    assert log.log_end_offset == end
    assert (bench.report.lost_from, bench.report.lost_to) == (base, end)
    # A follower fetches the lost records again ...
    assert log.doubtful_from == base
    # ... also if a crash or a stop comes before.
    log.flush()
    assert bench.open(clean=True, recovery_point=end).doubtful_from == base
    log = bench.open(clean=False, recovery_point=end)
    assert (log.doubtful_from, log.log_end_offset) == (base, end)
    log.truncate_to(base)
    assert (log.log_end_offset, log.log_start_offset, log.doubtful_from) == (base, 0, None)
    bench.append(b"again")
    assert offsets_of(log) == list(range(base + 1))


@pytest.mark.parametrize("clean", [True, False])
def test_an_only_replica_continues_behind_the_lost_records(clean: bool) -> None:
    bench = filled(3)
    log = bench.log
    log.flush()
    end, base = log.log_end_offset, log.segments.active.base_offset
    if clean:
        log.close()
    bench.files.remove(log_file(base))
    log = bench.open(clean=clean, recovery_point=end)
    log.resolve_doubt()
    assert bench.append(b"next").first_offset == end
    assert offsets_of(log) == [*range(base), end]
    assert bench.restart(clean=True).log_end_offset == end + 1


def test_an_orphaned_index_shows_a_removed_segment_without_a_checkpoint() -> None:
    bench = filled(3)
    log = bench.log
    base = log.segments.active.base_offset
    log.segments.active.syncable_files()
    bench.files.remove(log_file(base))
    log = bench.open(clean=False, recovery_point=0)
    assert log.log_end_offset == base


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("compacted", [True, False])
def test_an_empty_segment_is_in_the_place_of_a_removed_one(
    number: int, clean: bool, compacted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = filled(4)
    if compacted:
        bench.configure(cleanup_policy="compact", segment_bytes=400, index_interval_bytes=1)
    log = bench.log
    log.flush()
    bases = bench.bases()
    end = log.log_end_offset
    if clean:
        log.close()
    else:
        for segment in log.segments:
            segment.syncable_files()
    bench.files.remove(log_file(bases[number]))
    log = bench.open(clean=clean, recovery_point=end)
    assert bench.bases() == bases
    assert (log.log_start_offset, log.log_end_offset, log.doubtful_from) == (0, end, None)
    assert log.files.failures.damaged_segments.keys() == {bases[number]}
    assert [record.levelname for record in caplog.records if "its log file is missing or empty" in record.message] == [
        "ERROR"
    ]
    # Other segments can be read, and nothing was cut. The next start knows the same.
    for _ in range(2):
        assert log.offset_for_timestamp(1001).result() is None
        intact = [offset for offset in range(end) if not bases[number] <= offset < bases[number + 1]]
        assert offsets_of(log) == intact
        log = bench.restart(clean=clean, recovery_point=end)
        assert log.files.failures.damaged_segments.keys() == {bases[number]}


def test_a_damaged_closed_segment_without_indexes_does_not_keep_the_log_out_of_service() -> None:
    bench = filled(3)
    second = bench.bases()[1]
    bench.log.close()
    bench.files.nodes[log_file(second)].data[16] ^= 0xFF
    bench.files.remove(log_file(second).replace(".log", ".index"))
    log = bench.open(clean=True, recovery_point=bench.log.log_end_offset)
    assert log.files.failures.damaged_segments.keys() == {second}
    with pytest.raises(CorruptLog):
        log.read(second, max_bytes=1000, end_offset=log.log_end_offset)
    assert log.read(0, max_bytes=1000, end_offset=log.log_end_offset).region is not None


@pytest.mark.parametrize("steps", range(12))
def test_a_crash_while_segments_are_deleted_is_no_loss(steps: int) -> None:
    bench = filled(4)
    log = bench.log
    log.flush()
    end = log.log_end_offset
    for segment in list(log.segments)[:3]:
        for path in segment.paths():
            if steps and bench.files.exists(path):
                bench.files.rename(path, path + ".deleted")
                steps -= 1
    log = bench.open(clean=False, recovery_point=end)
    assert (bench.report.lost_from, log.doubtful_from, log.log_end_offset) == (-1, None, end)


def test_the_recovery_point_of_a_former_topic_is_no_loss() -> None:
    bench = LogBench()
    bench.append(b"a")
    log = bench.open(clean=False, recovery_point=1000)
    assert (bench.report.lost_from, log.doubtful_from, log.log_end_offset) == (-1, None, 1)


def test_a_node_with_lost_records_has_no_clean_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.start()
    node.append(node.create("t"), b"a", b"b")
    node.append(node.create("u"), b"a")
    node.stop()
    node.files.remove(f"/d1/t-0/{0:020d}.log")
    caplog.set_level(logging.ERROR)
    logs = node.start()
    assert [
        record.message for record in caplog.records if "t-0 has lost the records from offset 0 to 1" in record.message
    ]
    assert logs.previous_broker_epoch == -1
    log = logs.get(TopicPartition("t", 0))
    assert log is not None
    assert log.log_end_offset == 2
    # The node stopped before a leader was elected: the next start doubts the log's end again.
    node.stop()
    value = node.start().get(TopicPartition("t", 0))
    assert value is not None
    assert (value.doubtful_from, value.log_end_offset) == (0, 2)
    node.append(value, b"c")
    assert value.log_end_offset == 3


@pytest.mark.parametrize("appends", [True, False])
def test_a_truncation_while_the_node_runs_is_noticed_by_a_flush(
    appends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    node.start()
    log = node.create("t")
    for number in range(4):
        node.append(log, b"value-%d" % number)
    failed: list[TopicPartition] = []
    node.logs.on_log_failure.append(failed.append)
    path = f"/d1/t-0/{0:020d}.log"
    size = len(node.files.nodes[path].data)
    del node.files.nodes[path].data[size // 2 :]
    if appends:
        # A hole; files in memory represent it as zero bytes.
        node.files.nodes[path].data += bytes(size // 2 - 10)
    flushed = log.flush()
    node.world.scheduler.run()
    assert flushed.error is not None
    assert failed == [TopicPartition("t", 0)]
    assert log.is_offline
    assert log.recovery_point == 0
    reopened = node.create("t")
    assert reopened is not log
    assert (reopened.log_end_offset, reopened.doubtful_from) == (4, 2)
    node.append(reopened, b"next")
    assert reopened.log_end_offset == 5
    assert [record.levelname for record in caplog.records if "t-0 is out of service" in record.message] == ["ERROR"]


def test_a_removed_directory_is_noticed_by_maintenance() -> None:
    node = Node(log_flush_offset_checkpoint_interval_ms="1000", log_initial_task_delay_ms="1000")
    node.start()
    log = node.create("t")
    node.append(log, b"a", b"b")
    node.files.remove_tree("/d1/t-0")
    node.world.scheduler.advance(2000)
    value = node.logs.get(TopicPartition("t", 0))
    assert value is not None
    assert value is not log
    assert (value.log_end_offset, value.doubtful_from) == (2, 0)
    assert node.logs.topic_id_of(TopicPartition("t", 0)) == log_topic_id(node)


def log_topic_id(node: Node) -> object:
    """The topic id on disk, after another start."""
    node.stop()
    return node.start().topic_id_of(TopicPartition("t", 0))


@pytest.mark.parametrize("damage", ["cut", "flipped", "removed bytes"])
def test_a_read_reports_a_damaged_closed_segment_once(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = filled(3)
    second, third = bench.bases()[1:3]
    data = bench.files.nodes[log_file(second)].data
    log = bench.restart(clean=True)
    if damage == "cut":
        del data[len(data) // 3 :]
        bench.restart(clean=True)
        log = bench.log
    elif damage == "flipped":
        data[16] ^= 0xFF
    else:
        data[:] = bytes(len(data))
    for _ in range(3):
        with contextlib.suppress(CorruptLog):
            log.read(third - 1 if damage == "cut" else second, max_bytes=1000, end_offset=log.log_end_offset)
    messages = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(messages) == 1, messages
    assert f"the segment at offset {second} is damaged" in messages[0]
    assert log.files.failures.damaged_segments.keys() == {second}


def produced(node: Node, count: int) -> PartitionLog:
    """A log of several segments, whose records have a producer with an id."""
    log = node.create("t", segment_bytes=400, index_interval_bytes=1)
    for number in range(count):
        built = batch(b"value-%02d" % number * 5, producer_id=5, producer_epoch=0, sequence=number)
        log.append_built(built, leader_epoch=0, now_ms=node.world.clock.now_ms())
    node.world.scheduler.run()
    assert len(log.segments) >= 3
    return log


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("damaged_batch", [0, 1])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_truncation_behind_damage_ends_before_the_damage(number: int, damaged_batch: int, is_known: bool) -> None:
    """A repair would wait for the high watermark, which waits for the records fetched after the truncation."""
    node = Node()
    node.start()
    log = produced(node, 12)
    base, end = log.segments[number].base_offset, log.log_end_offset
    size = len(batch(b"value-00" * 5))
    node.files.nodes[f"/d1/t-0/{base:020d}.log"].data[16 + damaged_batch * size] ^= 0x5A
    if is_known:
        log.files.failures.note_damaged(base, "its format version is wrong")
    with pytest.raises(StorageError):
        log.truncate_to(base + damaged_batch + 1)
    node.world.scheduler.run()
    reopened = node.create("t", segment_bytes=400, index_interval_bytes=1)
    assert reopened is not log
    assert not node.logs.directories[0].is_offline
    assert reopened.log_end_offset <= end
    assert reopened.doubtful_from == base + damaged_batch
    # The follower fetches again from there.
    reopened.truncate_to(reopened.doubtful_from)
    assert offsets_of(reopened) == list(range(base + damaged_batch))
    assert not reopened.files.failures.damaged_segments
    next_batch = batch(b"next", producer_id=5, producer_epoch=0, sequence=base + damaged_batch)
    assert not reopened.append_built(next_batch, leader_epoch=0, now_ms=1).duplicate


def test_a_damaged_segment_of_which_nothing_is_left_is_not_damaged_any_more() -> None:
    bench = filled(4)
    log = bench.log
    log.flush()
    bases, end = bench.bases(), log.log_end_offset
    log.close()
    bench.files.remove(log_file(bases[1]))
    log = bench.open(clean=True, recovery_point=end)
    log.truncate_to(bases[1] + 1)
    assert log.log_end_offset == bases[1]
    assert not log.files.failures.damaged_segments
    for number in range(30):
        bench.append(b"y" * (number % 7))
    for max_bytes in (1, 90, 200, 300):
        offsets = [record.offset for record in read_all(log, max_bytes=max_bytes)]
        assert offsets == list(range(log.log_end_offset))
