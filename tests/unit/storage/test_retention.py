"""Retention: which segments are deleted, when, and which are kept."""

from __future__ import annotations

import errno

import pytest

from ottla.storage.errors import DiskFull
from ottla.storage.retention import delete_expired, expired_segments
from tests.unit.storage.helpers import DIRECTORY, LogBench, batch, offsets_of

DAY_MS = 86_400_000


def filled(count: int, **overrides: object) -> LogBench:
    """One batch in each segment, one day apart, the last one now."""
    bench = LogBench(segment_bytes=len(batch(b"x")) + 1, **overrides)
    now = bench.world.clock.now_ms()
    for number in range(count):
        bench.append(b"x", timestamp=now - (count - 1 - number) * DAY_MS)
    bench.advance_high_watermark()
    return bench


def expire(bench: LogBench) -> int:
    deleted = delete_expired(bench.log, bench.world.clock.now_ms())
    bench.world.scheduler.run()
    return deleted


def test_segments_older_than_the_retention_time_go() -> None:
    bench = filled(6, retention_ms=2 * DAY_MS)
    # Days 5, 4 and 3 ago are too old; two days ago is just young enough.
    assert expire(bench) == 3
    assert bench.log.log_start_offset == 3
    assert offsets_of(bench.log) == [3, 4, 5]


def test_seven_days_retention_may_keep_seventeen_days() -> None:
    # 100 MB a day in segments of 1 GB: here six batches a day and sixty to the segment. A full segment goes only when
    # its youngest record is seven days old, and by then its oldest is seventeen.
    step_ms = DAY_MS // 6
    bench = LogBench(
        segment_bytes=60 * len(batch(b"x")), retention_ms=7 * DAY_MS, segment_ms=1000 * DAY_MS, file_delete_delay_ms=0
    )
    oldest_ms = 0
    for _ in range(240):
        bench.world.scheduler.advance(step_ms)
        expire(bench)
        bench.append(b"x", timestamp=bench.world.clock.now_ms())
        bench.advance_high_watermark()
        oldest_ms = max(oldest_ms, bench.world.clock.now_ms() - bench.log.segments[0].first_timestamp)
    assert 17 * DAY_MS - step_ms <= oldest_ms <= 17 * DAY_MS


def test_size_counts_for_each_partition_and_keeps_at_least_the_limit() -> None:
    size = len(batch(b"x"))
    bench = filled(10, retention_ms=-1, retention_bytes=4 * size)
    assert expire(bench) == 6
    assert bench.log.size_bytes == 4 * size
    bench.configure(segment_bytes=size + 1, retention_ms=-1, retention_bytes=3 * size + 1)
    assert expire(bench) == 0


def test_nothing_above_the_high_watermark_goes() -> None:
    bench = filled(6, retention_ms=0)
    bench.log.high_watermark = 2
    assert expire(bench) == 2
    assert bench.log.log_start_offset == 2


def test_the_active_segment_stays_while_one_record_is_young() -> None:
    bench = LogBench(retention_ms=DAY_MS)
    now = bench.world.clock.now_ms()
    bench.append(b"old", timestamp=now - 3 * DAY_MS)
    bench.append(b"new", timestamp=now)
    bench.advance_high_watermark()
    assert expire(bench) == 0
    assert offsets_of(bench.log) == [0, 1]


def test_an_active_segment_with_nothing_young_is_closed_and_goes() -> None:
    bench = LogBench(retention_ms=DAY_MS)
    bench.append(b"old", timestamp=bench.world.clock.now_ms())
    bench.advance_high_watermark()
    bench.world.scheduler.advance(DAY_MS)
    assert expire(bench) == 0
    bench.world.scheduler.advance(1)
    assert expire(bench) == 1
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (1, 1)
    assert bench.bases() == [1]
    # An empty segment is not deleted over and over.
    assert expire(bench) == 0
    assert bench.append(b"next").first_offset == 1


def test_records_without_timestamps_age_with_their_file() -> None:
    bench = LogBench(retention_ms=DAY_MS)
    bench.append(b"x", timestamp=-1)
    bench.advance_high_watermark()
    assert expire(bench) == 0
    bench.world.scheduler.advance(DAY_MS + 1)
    assert expire(bench) == 1


def test_a_compacted_topic_is_not_deleted_by_time_or_size() -> None:
    bench = filled(5, retention_ms=0, retention_bytes=1, cleanup_policy="compact")
    assert expire(bench) == 0
    bench.configure(segment_bytes=100, retention_ms=0, cleanup_policy="compact,delete")
    assert expire(bench) == 4 + 1 - (bench.world.clock.now_ms() == bench.log.segments[-1].largest_timestamp())


def test_segments_below_the_start_offset_go_whatever_the_policy() -> None:
    bench = filled(5, retention_ms=-1, cleanup_policy="compact")
    assert bench.log.advance_log_start_offset(3)
    # Gone for readers at once; on disk the whole segments below.
    assert offsets_of(bench.log) == [3, 4]
    assert expire(bench) == 3
    assert bench.bases() == [3, 4]


def test_deleted_files_are_renamed_and_removed_after_the_delay() -> None:
    bench = filled(3, retention_ms=DAY_MS, file_delete_delay_ms=60_000)
    region = bench.log.read(0, max_bytes=1000, end_offset=3).region
    assert region is not None
    content = region.read()
    assert expire(bench) == 1
    assert "00000000000000000000.log" not in bench.names()
    assert "00000000000000000000.log.deleted" in bench.names()
    assert "00000000000000000000.index.deleted" in bench.names()
    # A read that has begun continues.
    assert region.read() == content
    bench.world.scheduler.advance(59_999)
    assert "00000000000000000000.log.deleted" in bench.names()
    bench.world.scheduler.advance(1)
    assert not bench.names(".deleted")


def test_files_on_their_way_out_are_removed_at_the_next_start() -> None:
    bench = filled(3, retention_ms=DAY_MS)
    expire(bench)
    assert bench.names(".deleted")
    bench.restart(clean=False)
    assert not bench.names(".deleted")
    assert offsets_of(bench.log) == [1, 2]


def test_the_largest_timestamp_of_a_closed_segment_is_found_without_reading_it() -> None:
    bench = LogBench(index_interval_bytes=100, segment_bytes=100_000)
    for number in range(500):
        bench.append(b"x" * 50, timestamp=1000 + number)
    bench.log.roll()
    bench.restart(clean=True)
    reads = 0
    segment = bench.log.segments[0]
    original = type(segment.file).read

    def counting(file: object, position: int, length: int) -> bytes:
        nonlocal reads
        reads += 1
        return original(file, position, length)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(segment.file), "read", counting)
        assert segment.largest_timestamp() == 1499
    assert reads < 30
    assert expired_segments(bench.log, 0) == []
    assert bench.files.exists(f"{DIRECTORY}/00000000000000000000.log")


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_snapshot_that_cannot_be_renamed_takes_nothing_out_of_service(is_removed: bool) -> None:
    """Another program has removed it, or a full disk has no room for the longer name."""
    bench = LogBench(segment_bytes=200, retention_bytes=1)
    for number in range(4):
        bench.append(b"x" * 60, producer_id=1, producer_epoch=0, sequence=number)
    bench.advance_high_watermark()
    path = f"{DIRECTORY}/{bench.bases()[1]:020d}.snapshot"
    if is_removed:
        bench.files.remove(path)
    else:
        bench.files.fail_next("rename", OSError(errno.ENOSPC, "no space left on device"), path_contains=path)
        with pytest.raises(DiskFull):
            delete_expired(bench.log, 10**9)
        # The segment has its own name as long as it is in service: a start must not remove it.
        assert bench.bases()[0] == 1
        assert bench.files.exists(f"{DIRECTORY}/{1:020d}.log")
    delete_expired(bench.log, 10**9)
    assert bench.failures == []
    assert bench.log.log_start_offset == bench.log.segments[0].base_offset > 1
    bench.world.scheduler.advance(61_000)
    assert not bench.names(".deleted")
