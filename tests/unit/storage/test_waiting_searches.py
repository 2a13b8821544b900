"""Searches that wait for the disk, while their log is compacted, deleted or replaced; and how much they read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.host.files import OsFile, OsFiles
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.storage import scan
from ottla.storage.cold_lookups import look_up
from ottla.storage.page_cache import BLOCK_BYTES
from ottla.storage.retention import delete_expired
from tests.support.cold_disk import ColdDisk
from tests.support.files import MemoryFile, MemoryFiles
from tests.support.virtual_world import VirtualWorkers
from tests.unit.storage.cleaner.cleaned_logs import Bench, content_of
from tests.unit.storage.helpers import LogBench, batch, offsets_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)


def held(workers: VirtualWorkers) -> list[Any]:
    """Removes the workers' pending tasks, so that other work can run first."""
    tasks = list(workers.tasks)
    workers.tasks.clear()
    return tasks


@pytest.mark.parametrize("is_for_time", [True, False], ids=["time", "youngest"])
def test_segments_that_are_merged_meanwhile(monkeypatch: pytest.MonkeyPatch, is_for_time: bool) -> None:
    """A searched segment and an unsearched segment are merged: the search still covers the unsearched records."""
    merges = 0
    for steps in range(12):
        with monkeypatch.context() as patch:
            merges += answered_after_a_merge(patch, steps, is_for_time=is_for_time)
    assert merges > 3, "the search waits several times"


def answered_after_a_merge(patch: pytest.MonkeyPatch, steps: int, *, is_for_time: bool) -> bool:
    """Merges segments after so many steps of a search. Returns False if it has ended by then."""
    bench = Bench(Path("/data"), files=MemoryFiles())
    log = bench.log()
    # One segment for each of the offsets 0 to 3. Compaction removes none of their records.
    for number, timestamp in enumerate((10, 17, 20, 12)):
        bench.put(log, [(f"key{number}", "x" * 50)], timestamp=timestamp)
        log.roll()
    bench.put(log, [("last", "x")], timestamp=16)
    log.flush()
    log.close()
    bench.logs.clear()
    log = bench.log(clean_shutdown=True)
    workers = bench.world.workers
    workers.immediate = False
    ColdDisk(workers, patch, MemoryFile).empty()
    question = log.offset_for_timestamp(18) if is_for_time else log.offset_of_max_timestamp()
    for _ in range(steps):
        if workers.tasks:
            workers.run_one()
    if question.done:
        return False
    waiting, before, count = held(workers), content_of(log), len(log.segments)
    workers.immediate = True
    bench.clean()
    workers.immediate = False
    assert content_of(log) == before
    assert len(log.segments) < count
    workers.tasks.extend(waiting)
    workers.run_all()
    assert question.result() == (20, 2)
    return True


def test_a_log_whose_files_are_removed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the search made again would stay in the directory, which would then count as failed."""
    (tmp_path / "d1").mkdir()
    node = Node(str(tmp_path / "d1"), files=OsFiles())  # type: ignore[arg-type]
    node.start()
    created = node.create("t", segment_bytes=300)
    for number in range(12):
        node.append(created, b"x" * 50, timestamp=1000 + number)
    node.stop()
    node.start()
    log = node.logs.get(PARTITION)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    workers = node.world.workers
    workers.immediate = False
    disk = ColdDisk(workers, monkeypatch, OsFile)
    disk.empty()
    question = log.offset_for_timestamp(1011)
    for _ in range(3):
        workers.run_one()
    assert not question.done
    waiting = held(workers)
    node.logs.delete(PARTITION)
    workers.run_all()
    remove_directory = os.rmdir

    def while_the_search_continues(path: str) -> None:
        if waiting:
            removing = held(workers)
            workers.tasks.extend(waiting)
            waiting.clear()
            workers.run_all()
            workers.tasks.extend(removing)
        remove_directory(path)

    monkeypatch.setattr(os, "rmdir", while_the_search_continues)
    node.world.scheduler.advance(120_000)
    disk.is_watched = False
    workers.run_all()
    node.world.scheduler.run()
    assert isinstance(question.error, KafkaError)
    (directory,) = node.logs.directories
    assert directory.error is None


def test_a_log_that_is_recovered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search has the old log, whose file sizes are no longer true."""
    node = Node("/d1")
    node.start()
    created = node.create("t", segment_bytes=2000)
    for number in range(40):
        node.append(created, b"x" * 50, timestamp=1000 + number)
    node.stop()
    node.start()
    log = node.logs.get(PARTITION)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    node.append(log, b"x" * 50, timestamp=2000)
    workers = node.world.workers
    workers.immediate = False
    disk = ColdDisk(workers, monkeypatch, MemoryFile)
    disk.empty()
    question = log.offset_for_timestamp(2000)
    for _ in range(3):
        workers.run_one()
    assert not question.done
    waiting = held(workers)
    disk.is_watched = False

    # Another program has cut the last file. The log is recovered, and a follower fetches the rest again.
    path, size = log.segments.active.path, log.segments.active.size
    del node.files.nodes[path].data[size // 2 :]
    with pytest.raises(KafkaError):
        node.append(log, b"y")
    workers.run_all()
    workers.immediate = True
    node.world.scheduler.run()
    recovered = node.logs.get(PARTITION)
    assert recovered is not None
    assert recovered is not log
    assert recovered.doubtful_from is not None
    recovered.truncate_to(recovered.doubtful_from)
    recovered.resolve_doubt()
    while recovered.log_end_offset < 44:
        node.append(recovered, b"x" * 50, timestamp=3000)
    recovered.update_high_watermark(44)
    assert recovered.segments.active.path == path
    assert recovered.segments.active.size > size

    workers.immediate = False
    workers.tasks.extend(waiting)
    disk.empty()
    workers.run_all()
    disk.is_watched = False
    assert len(node.files.nodes[path].data) == recovered.segments.active.size
    assert offsets_of(recovered)[-1] == 43


def remember_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for all blocks that a worker has read: nothing has to be read twice."""
    cached: set[tuple[str, int]] = set()
    read = MemoryFile.read

    def blocks(file: MemoryFile, position: int, length: int) -> set[tuple[str, int]]:
        end = min(position + length, file.size)
        return {(file.path, number) for number in range(position // BLOCK_BYTES, -(-end // BLOCK_BYTES))}

    def read_nowait(file: MemoryFile, position: int, length: int) -> bytes | None:
        return read(file, position, length) if blocks(file, position, length) <= cached else None

    def read_by_worker(file: MemoryFile, position: int, length: int) -> bytes:
        cached.update(blocks(file, position, length))
        return read(file, position, length)

    monkeypatch.setattr(MemoryFile, "read_nowait", read_nowait)
    monkeypatch.setattr(MemoryFile, "read", read_by_worker)


def reopened(segments: int, *, segment_bytes: int, first_timestamp: int) -> LogBench:
    """Closed segments of batches of 1,000 bytes. The first batch has its own timestamp."""
    bench = LogBench(segment_bytes=segment_bytes, retention_ms=1_000)
    number = 0
    while len(bench.log.segments) <= segments:
        built = batch(b"x" * 1000, timestamp=5_000 + number if number else first_timestamp)
        bench.log.append_built(built, leader_epoch=0, now_ms=bench.world.clock.now_ms())
        number += 1
    bench.world.scheduler.run()
    bench.log.flush()
    end = bench.log.log_end_offset
    bench.log.close()
    bench.open(clean=True, recovery_point=end)
    bench.advance_high_watermark()
    bench.world.workers.immediate = False
    return bench


def looked_up(bench: LogBench, lookup: Callable[[bool], int]) -> int:
    """The result of a lookup that never waits on the loop's thread."""

    def checked(may_wait: bool) -> int:
        assert not may_wait
        return lookup(may_wait)

    result = look_up(bench.world.workers, checked)
    bench.world.workers.run_all()
    return result.result()


def test_a_read_across_the_end_of_a_block_is_no_repeated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = reopened(20, segment_bytes=BLOCK_BYTES + 2_000, first_timestamp=5_000)
    remember_blocks(monkeypatch)
    now_ms = bench.world.clock.now_ms()
    assert looked_up(bench, lambda may_wait: delete_expired(bench.log, now_ms, may_wait=may_wait)) >= 20


def test_the_largest_timestamp_is_searched_once_through_a_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch is the youngest, so that all others are searched, a block in each round."""
    bench = reopened(1, segment_bytes=16 * BLOCK_BYTES, first_timestamp=100_000_000)
    remember_blocks(monkeypatch)
    parsed, parse = 0, scan._parse

    def counted(*arguments: Any) -> Any:
        nonlocal parsed
        parsed += 1
        return parse(*arguments)

    monkeypatch.setattr(scan, "_parse", counted)
    segment = bench.log.segments[0]
    assert looked_up(bench, lambda may_wait: segment.largest(may_wait=may_wait).timestamp) == 100_000_000
    assert parsed < 2 * bench.log.log_end_offset
