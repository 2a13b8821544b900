"""Repairs of compacted logs from a replica that was compacted less: no deleted key comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.records.iterate import iterate_batches
from ottla.storage.log import PartitionLog
from ottla.storage.segment_repair import RepairRefused, begin_repair
from tests.unit.storage.cleaner.cleaned_logs import Bench, content_of

# A segment has room for one of them, so that none are merged.
PAD = "x" * 600_000


def written(bench: Bench, *segments: list[tuple[str, str | None]]) -> tuple[PartitionLog, bytes]:
    """A log with these segments, and their records as another replica has them, which has not been cleaned."""
    log = bench.log(segment_bytes="1048576")
    for records in segments:
        bench.put(log, records)
        log.roll()
    return log, b"".join(bytes(segment.file.read(0, segment.size)) for segment in log.segments)


def repair(bench: Bench, log: PartitionLog, other: bytes) -> None:
    """The second segment is damaged."""
    copy = begin_repair(log, log.segments[1], bench.world.files)
    copy.add(other, [])
    copy.finish()
    bench.cleaner.on_log_repaired(log)
    assert copy.install(bench.pool)


def value_of(log: PartitionLog, key: str) -> str | None:
    return {key: value for _, key, value in content_of(log)}.get(key)


def test_a_tombstone_that_was_removed_here_is_copied_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    log, other = written(bench, [("k", "old"), ("a", PAD)], [("b", PAD)], [("k", None), ("c", PAD)])
    bench.clean()
    bench.world.scheduler.advance(5_000)
    bench.put(log, [("d", PAD)])
    log.roll()
    bench.clean()
    assert "k" not in [key for _, key, _ in content_of(log)]
    repair(bench, log, other)
    bench.clean()
    assert value_of(log, "k") is None


def test_repaired_segments_are_cleaned_again(tmp_path: Path) -> None:
    """The key and its tombstone both come back, and the tombstone goes when its time has come."""
    bench = Bench(tmp_path)
    log, other = written(bench, [("k", "old"), ("a", PAD)], [("k", None), ("b", PAD)], [("c", PAD)])
    bench.clean()
    repair(bench, log, other)
    for key in "defg":
        bench.put(log, [(key, PAD)])
        log.roll()
        bench.clean()
        bench.world.scheduler.advance(5_000)
    assert value_of(log, "k") is None


def test_a_copy_that_is_too_large_for_a_segment_is_refused(tmp_path: Path) -> None:
    """A merged segment stands for many raw ones on a replica that is not compacted."""
    bench = Bench(tmp_path)
    log = bench.log(index_interval_bytes="0")
    for number in range(4):
        bench.put(log, [(f"k{number}", "v")])
    log.roll()
    bench.put(log, [("z", "v")])
    content = bytes(log.segments[0].file.read(0, log.segments[0].size))
    cut = list(iterate_batches(content))[2].position
    copy = begin_repair(log, log.segments[0], bench.world.files)
    copy.add(content[:cut], [])
    # A hole in the file stands for 2 GiB that were fetched before.
    segment = copy._targets[0].segment
    segment.file.truncate(2**31 + 1)
    segment.size = 2**31 + 1
    with pytest.raises(RepairRefused):
        copy.add(content[cut:], [])
