"""Lookups of times, retention and moves with nothing in the page cache: workers read the disk, never the loop."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.ports import FileRegion
from ottla.storage.cold_lookups import REPEATED_MAX, look_up
from ottla.storage.page_cache import NotCached
from ottla.storage.time_index import TimestampOffset
from tests.support.cold_disk import ColdDisk
from tests.support.files import MemoryFile, MemoryFiles
from tests.support.virtual_world import VirtualWorkers
from tests.unit.storage.helpers import LogBench, log_config, offsets_of
from tests.unit.storage.logs_node import Node

BATCHES = 40
STEP_MS = 10


@pytest.fixture
def bench() -> LogBench:
    """Several segments with several index entries each, closed and opened again: nothing is remembered."""
    bench = LogBench(segment_bytes=1500, index_interval_bytes=150)
    for number in range(BATCHES):
        bench.append(b"x" * 50, timestamp=STEP_MS * number)
    bench.advance_high_watermark()
    reopen(bench)
    return bench


@pytest.fixture
def disk(bench: LogBench, monkeypatch: pytest.MonkeyPatch) -> Iterator[ColdDisk]:
    bench.world.workers.immediate = False
    disk = ColdDisk(bench.world.workers, monkeypatch, MemoryFile)
    yield disk
    disk.is_watched, disk.error = False, None


def reopen(bench: LogBench) -> None:
    bench.log.close()
    bench.open(clean=True, recovery_point=BATCHES)
    bench.advance_high_watermark()


def answered(
    bench: LogBench, question: Deferred[TimestampOffset | None], *, is_cold: bool = True
) -> TimestampOffset | None:
    assert question.done is not is_cold
    bench.world.workers.run_all()
    return question.result()


@pytest.mark.parametrize("number", [0, 1, 7, 20, BATCHES - 1])
def test_the_first_record_of_a_time(bench: LogBench, disk: ColdDisk, number: int) -> None:
    disk.empty()
    timestamp_and_offset = answered(bench, bench.log.offset_for_timestamp(STEP_MS * number - 5))
    assert timestamp_and_offset == (STEP_MS * number, number)
    assert disk.loop_reads == []


def test_a_time_in_the_future(bench: LogBench, disk: ColdDisk) -> None:
    disk.empty()
    assert answered(bench, bench.log.offset_for_timestamp(STEP_MS * BATCHES)) is None
    assert disk.loop_reads == []


def test_the_youngest_record(bench: LogBench, disk: ColdDisk) -> None:
    disk.empty()
    assert answered(bench, bench.log.offset_of_max_timestamp()) == (STEP_MS * (BATCHES - 1), BATCHES - 1)
    assert disk.loop_reads == []


def test_the_youngest_record_after_the_youngest_was_deleted(bench: LogBench, disk: ColdDisk) -> None:
    bench.append(b"future", timestamp=10_000)
    bench.append(b"now", timestamp=500)
    bench.advance_high_watermark()
    bench.log.advance_log_start_offset(BATCHES + 1)
    disk.empty()
    assert answered(bench, bench.log.offset_of_max_timestamp()) == (500, BATCHES + 1)
    assert disk.loop_reads == []


def test_segments_that_are_deleted_during_the_wait(bench: LogBench, disk: ColdDisk) -> None:
    disk.empty()
    question = bench.log.offset_for_timestamp(0)
    log = bench.log
    log.delete_segments([log.segments[0], log.segments[1]])
    start = log.log_start_offset
    assert answered(bench, question) == (STEP_MS * start, start)


def test_an_error_of_the_disk_is_told(bench: LogBench, disk: ColdDisk) -> None:
    disk.empty()
    question = bench.log.offset_for_timestamp(5)
    disk.error = OSError(errno.EIO, "no such sector")
    bench.world.workers.run_all()
    assert isinstance(question.error, KafkaError)
    assert question.error.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_pages_that_are_gone_at_once_are_read_in_the_end(bench: LogBench, disk: ColdDisk) -> None:
    disk.empty()
    disk.keeps_nothing = True
    assert answered(bench, bench.log.offset_for_timestamp(STEP_MS * 7)) == (STEP_MS * 7, 7)
    assert disk.loop_reads


def test_a_lookup_of_many_regions_never_waits_as_long_as_it_goes_on() -> None:
    files, workers = MemoryFiles(), VirtualWorkers()
    files.make_directories("/d")
    file = files.open("/d/f")
    file.append(bytes(100 * (REPEATED_MAX + 10)))
    attempts: list[bool] = []

    def lookup(may_wait: bool) -> str:
        attempts.append(may_wait)
        if len(attempts) < REPEATED_MAX + 10:
            raise NotCached(FileRegion(file, 100 * len(attempts), 100))
        return "found"

    lookup_result = look_up(workers, lookup)
    workers.run_all()
    assert lookup_result.result() == "found"
    assert not any(attempts)


# Retention.


@pytest.fixture
def expired(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Node, ColdDisk]]:
    """A node that has started again, with two logs whose first segments have expired."""
    node = Node("/d1")
    node.start()
    now_ms = node.world.clock.now_ms()
    for name in ("t", "u"):
        log = node.create(name, segment_bytes=300, index_interval_bytes=50)
        for _ in range(12):
            node.append(log, b"x" * 50, timestamp=now_ms - 5_000)
        node.append(log, b"new" * 30, timestamp=now_ms)
    node.stop()
    node.start()
    for log in node.logs:
        log.configure(log_config(segment_bytes=300, index_interval_bytes=50, retention_ms=1000))
        log.update_high_watermark(log.log_end_offset)
    node.world.workers.immediate = False
    disk = ColdDisk(node.world.workers, monkeypatch, MemoryFile)
    disk.empty()
    yield node, disk
    disk.is_watched = False


def test_retention_reads_timestamps_on_a_worker(expired: tuple[Node, ColdDisk]) -> None:
    node, disk = expired
    node.logs.maintenance.apply_retention()
    assert [log.log_start_offset for log in node.logs] == [0, 0]
    node.world.workers.run_all()
    assert disk.loop_reads == []
    assert [log.log_start_offset for log in node.logs] == [12, 12], "the second log as well"


@pytest.mark.parametrize("reads_between", range(8))
def test_a_run_of_retention_that_is_slow_does_not_disturb_the_next(
    expired: tuple[Node, ColdDisk], reads_between: int
) -> None:
    """Each decides and deletes in one step, so neither deletes a segment that the other has deleted."""
    node, disk = expired
    node.logs.maintenance.apply_retention()
    for _ in range(reads_between):
        node.world.workers.run_one()
    node.logs.maintenance.apply_retention()
    disk.empty()
    node.world.workers.run_all()
    node.world.scheduler.run()
    for log in node.logs:
        assert (log.log_start_offset, log.log_end_offset) == (12, 13)
        log.invariants()
    assert not node.logs.directories[0].is_offline
    assert not [name for name in node.files.list_directory("/d1/t-0") if name.endswith(".deleted.deleted")]


def test_retention_ends_with_the_node(expired: tuple[Node, ColdDisk]) -> None:
    node, _ = expired
    node.logs.maintenance.apply_retention()
    node.logs.maintenance.stop()
    node.world.workers.run_all()
    assert [log.log_start_offset for log in node.logs] == [0, 0]


def test_a_disk_that_fails_keeps_no_other_log_from_its_retention(expired: tuple[Node, ColdDisk]) -> None:
    node, disk = expired
    node.logs.maintenance.apply_retention()
    disk.error = OSError(errno.ENOMEM, "no memory for the read")
    node.world.workers.run_one()
    disk.error = None
    node.world.workers.run_all()
    assert [log.log_start_offset for log in node.logs] == [0, 12]


# Moves.


def test_a_move_reads_on_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node("/d1", "/d2")
    node.start()
    log = node.create("t", segment_bytes=1000, index_interval_bytes=100)
    for number in range(50):
        node.append(log, b"value-%02d" % number)
    node.stop()
    node.start()
    partition = TopicPartition("t", 0)
    log = node.logs.get(partition) or log
    log.update_high_watermark(log.log_end_offset)
    disk = ColdDisk(node.world.workers, monkeypatch, MemoryFile)
    disk.empty()
    node.logs.move(partition, "/d2")
    node.world.scheduler.run()
    disk.is_watched = False
    assert log.directory == "/d2/t-0"
    assert [path for path in disk.loop_reads if path.startswith("/d1/")] == []
    assert offsets_of(log) == list(range(50))
