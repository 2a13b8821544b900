"""When a log begins a new segment."""

from __future__ import annotations

from struct import unpack

import pytest

from ottla.storage.segment import Segment
from tests.unit.storage.helpers import DIRECTORY, LogBench, batch, offsets_of, values_of

HOUR_MS = 3_600_000


def test_a_full_segment_is_closed_and_a_new_one_begins_at_the_end() -> None:
    size = len(batch(b"x" * 10))
    bench = LogBench(segment_bytes=3 * size)
    for _ in range(7):
        bench.append(b"x" * 10)
    assert bench.bases() == [0, 3, 6]
    assert bench.names(".log") == [f"{base:020d}.log" for base in (0, 3, 6)]
    # Indexes get their files when there is something to write, and when their segment closes.
    assert bench.names(".index") == [f"{base:020d}.index" for base in (0, 3)]
    assert bench.names(".timeindex") == [f"{base:020d}.timeindex" for base in (0, 3)]
    # Producer state is kept for each new segment.
    assert bench.names(".snapshot") == [f"{base:020d}.snapshot" for base in (3, 6)]
    assert offsets_of(bench.log) == list(range(7))


def test_the_age_of_a_segment_counts_from_its_first_batch() -> None:
    bench = LogBench(segment_ms=HOUR_MS)
    bench.append(b"a", timestamp=1_000_000)
    bench.append(b"b", timestamp=1_000_000 + HOUR_MS)
    assert bench.bases() == [0]
    bench.append(b"c", timestamp=1_000_000 + HOUR_MS + 1)
    assert bench.bases() == [0, 2]
    # The new segment's age counts from its own first batch.
    bench.append(b"d", timestamp=1_000_000 + 2 * HOUR_MS + 1)
    assert bench.bases() == [0, 2]
    bench.append(b"e", timestamp=1_000_000 + 2 * HOUR_MS + 2)
    assert bench.bases() == [0, 2, 4]


def test_of_several_batches_the_youngest_decides() -> None:
    bench = LogBench(segment_ms=HOUR_MS)

    def follow(*timestamps: int) -> None:
        end = bench.log.log_end_offset
        batches = [
            batch(b"x", base_offset=end + number, leader_epoch=0, timestamp=timestamp)
            for number, timestamp in enumerate(timestamps)
        ]
        bench.log.append_as_follower(b"".join(batches))

    follow(1_000_000, 1_000_000)
    follow(1_000_000 + HOUR_MS, 1_000_000)
    assert bench.bases() == [0]
    follow(1_000_000, 1_000_000 + HOUR_MS + 1, 1_000_000)
    assert bench.bases() == [0, 4]


def test_what_a_segment_may_hold_follows_the_configuration() -> None:
    bench = LogBench()
    bench.append(b"a", timestamp=1_000_000)
    bench.append(b"b", timestamp=1_000_000)
    bench.configure(segment_ms=HOUR_MS)
    bench.append(b"c", timestamp=1_000_000 + HOUR_MS + 1)
    assert bench.bases() == [0, 2]
    bench.configure(segment_bytes=bench.log.segments.active.size)
    bench.append(b"d", timestamp=1_000_000 + HOUR_MS + 1)
    assert bench.bases() == [0, 2, 3]


def test_a_segment_that_was_emptied_begins_a_new_age() -> None:
    bench = LogBench(segment_ms=HOUR_MS)
    bench.append(b"a", timestamp=2 * HOUR_MS)
    bench.append(b"b", timestamp=2 * HOUR_MS)
    bench.log.truncate_to(0)
    bench.append(b"c", timestamp=HOUR_MS)
    bench.append(b"d", timestamp=2 * HOUR_MS + 1)
    assert bench.bases() == [0, 1]


def test_records_without_timestamps_age_with_the_clock() -> None:
    bench = LogBench(segment_ms=HOUR_MS)
    bench.append(b"a", timestamp=-1)
    bench.world.scheduler.advance(HOUR_MS)
    bench.append(b"b", timestamp=-1)
    assert bench.bases() == [0]
    bench.world.scheduler.advance(1)
    bench.append(b"c", timestamp=-1)
    assert bench.bases() == [0, 2]


def test_an_empty_segment_is_not_rolled_by_age() -> None:
    bench = LogBench(segment_ms=HOUR_MS)
    bench.open()
    bench.world.scheduler.advance(5 * HOUR_MS)
    bench.append(b"a", timestamp=5)
    assert bench.bases() == [0]


def test_jitter_closes_segments_early_but_never_late() -> None:
    ages = set()
    bench = LogBench(segment_ms=1000, segment_jitter_ms=800)
    start = 1_000_000
    for _ in range(20):
        base = bench.log.log_end_offset
        timestamp = start
        while bench.log.segments.active.base_offset <= base:
            bench.append(b"a", timestamp=timestamp)
            timestamp += 50
            if bench.log.log_end_offset == 1:
                base = 0
        ages.add(timestamp - start - 50)
        start = timestamp + 10
        assert 200 <= max(ages) <= 1050
    assert len(ages) > 3


@pytest.mark.parametrize("kind", ["offset", "time"])
def test_a_full_index_closes_the_segment(kind: str) -> None:
    # Room for four offset entries, or for four time entries of which the last stays free for closing.
    index_bytes = 32 if kind == "offset" else 48
    bench = LogBench(index_interval_bytes=0, segment_index_bytes=index_bytes)
    for number in range(20):
        bench.append(b"v", timestamp=1000 + number if kind == "time" else 1000)
    sizes = [bench.files.size_of(f"{DIRECTORY}/{name}") for name in bench.names(".index")[:-1]]
    time_sizes = [bench.files.size_of(f"{DIRECTORY}/{name}") for name in bench.names(".timeindex")[:-1]]
    assert len(sizes) > 2
    assert max(sizes) <= index_bytes
    assert max(time_sizes) <= index_bytes
    assert offsets_of(bench.log) == list(range(20))


def test_offsets_that_do_not_fit_the_index_begin_a_new_segment() -> None:
    bench = LogBench()
    bench.log.append_as_follower(batch(b"a", base_offset=0, leader_epoch=0))
    far = (1 << 31) + 5
    bench.log.append_as_follower(batch(b"b", base_offset=far, leader_epoch=0))
    assert bench.bases() == [0, far]
    assert offsets_of(bench.log) == [0, far]


def test_an_empty_log_that_begins_far_away_has_one_segment() -> None:
    bench = LogBench()
    far = (1 << 31) + 5
    bench.log.append_as_follower(batch(b"b", base_offset=far, leader_epoch=0))
    assert bench.bases() == [far]
    assert bench.names(".log") == [f"{far:020d}.log"]
    assert bench.restart(clean=False).log_end_offset == far + 1


def test_rolling_flushes_the_closed_segment_and_moves_the_recovery_point() -> None:
    bench = LogBench(segment_bytes=200)
    for number in range(6):
        bench.append(b"value-%d" % number)
    assert len(bench.bases()) > 1
    assert bench.log.recovery_point >= bench.bases()[-1]
    closed = bench.files.nodes[f"{DIRECTORY}/00000000000000000000.log"]
    assert closed.synced == bytes(closed.data)


def test_the_closed_segment_gets_a_last_time_index_entry() -> None:
    bench = LogBench()
    bench.append(b"a", timestamp=5)
    bench.append(b"b", timestamp=9)
    bench.append(b"c", timestamp=7)
    bench.log.roll()
    data = bench.files.read_bytes(f"{DIRECTORY}/00000000000000000000.timeindex")
    assert unpack(">qi", data) == (9, 1)


def test_rolling_an_empty_segment_changes_nothing(bench: LogBench) -> None:
    before = bench.log.segments.active
    assert bench.log.roll() is before


def test_a_preallocated_segment_is_trimmed_when_it_closes() -> None:
    bench = LogBench(segment_bytes=10_000, preallocate="true")
    bench.append(b"a")
    bench.log.roll()
    path = f"{DIRECTORY}/{bench.log.segments.active.base_offset:020d}.log"
    assert bench.files.size_of(path) == 10_000
    bench.append(b"b")
    bench.log.roll()
    assert bench.files.size_of(path) == len(batch(b"b"))
    bench.append(b"c")
    # After a crash the reserved tail reads as zeros, which are no batch.
    bench.restart(clean=False, recovery_point=0)
    assert values_of(bench.log) == [b"a", b"b", b"c"]


def test_a_roll_that_finds_no_room_leaves_the_log_as_it_was() -> None:
    import errno

    from ottla.storage.errors import DiskFull

    bench = LogBench(segment_bytes=200)
    bench.append(b"a" * 60)
    bench.files.fail_next("write_atomically", OSError(errno.ENOSPC, "full"), path_contains=".snapshot")
    with pytest.raises(DiskFull):
        bench.append(b"b" * 60)
    assert bench.bases() == [0]
    assert bench.names(".log") == ["00000000000000000000.log"]
    bench.append(b"c" * 60)
    assert bench.bases() == [0, 1]
    assert values_of(bench.log) == [b"a" * 60, b"c" * 60]


def test_what_a_new_leader_wrote_after_a_full_disk_survives_a_crash() -> None:
    """Recovery must not treat batches as damaged because their epoch was known in memory only."""
    import errno

    from ottla.storage.errors import DiskFull

    bench = LogBench()
    bench.append(b"a", leader_epoch=1)
    bench.files.fail_next("write_atomically", OSError(errno.ENOSPC, "full"), path_contains="leader-epoch")
    with pytest.raises(DiskFull):
        bench.append(b"b", leader_epoch=2)
    bench.append(b"c", leader_epoch=2)
    bench.restart(clean=False, recovery_point=0)
    assert values_of(bench.log) == [b"a", b"c"]


def test_segments_know_what_their_indexes_can_name() -> None:
    bench = LogBench()
    segment = Segment("/data", 100, bench.pool, size=0, created_ms=0)
    assert segment.holds_relative(100)
    assert segment.holds_relative(100 + (1 << 31) - 1)
    assert not segment.holds_relative(100 + (1 << 31))
    assert not segment.holds_relative(99)
