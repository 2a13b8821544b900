"""The cleaner: its choice of logs, its failures, and the effects of crashes and changed logs."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.model.ids import TopicPartition
from ottla.records.iterate import iterate_batches
from ottla.storage.cleaner.cleaner import STEP_BYTES, LogCleaner
from ottla.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from ottla.storage.cleaner.throttle import Throttle
from ottla.storage.log import PartitionLog
from ottla.storage.retention import delete_expired
from tests.support.files import MemoryFiles
from tests.unit.storage.cleaner.cleaned_logs import Bench, content_of

DATA = Path("/data")


class PowerCut(BaseException):
    """Derives from BaseException, so that no handler catches it."""


class CuttingFiles(MemoryFiles):
    """Counts the operations that change a directory, and cuts the power before one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.cut_at: int | None = None

    def check(self, operation: str, path: str) -> None:
        if operation in ("rename", "remove", "create"):
            if self.cut_at is not None and self.changes == self.cut_at:
                raise PowerCut
            self.changes += 1
        super().check(operation, path)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def filled(bench: Bench, name: str = "t", *, rounds: int = 3, **overrides: str) -> PartitionLog:
    log = bench.log(name, **overrides)
    for number in range(rounds):
        bench.put(log, [("a", f"a{number}"), ("b", f"b{number}"), (f"only{number}", "x")])
        log.roll()
    return log


def run_steps(bench: Bench, *, count: int = 1000) -> int:
    """Runs up to `count` worker tasks, each followed by what the loop makes of it."""
    done = 0
    while bench.world.workers.tasks and done < count:
        bench.world.workers.run_one()
        bench.world.scheduler.run()
        done += 1
    return done


# ---- the swap, interrupted


def test_crash_at_every_step_of_a_swap_leaves_the_old_or_the_new_log() -> None:
    cut_at = 0
    outcomes = set()
    while True:
        files = CuttingFiles()
        bench = Bench(DATA, files=files)
        log = filled(bench)
        before = content_of(log)
        files.changes, files.cut_at = 0, cut_at
        try:
            bench.clean()
        except PowerCut:
            files.cut_at = None
        else:
            assert len(content_of(log)) == 5
            break
        after_crash = Bench(DATA, files=files)
        reopened = after_crash.log()
        content = content_of(reopened)
        newest = {key: (offset, value) for offset, key, value in content}
        assert newest == {key: (offset, value) for offset, key, value in before}
        assert reopened.log_end_offset == 9
        outcomes.add(len(content))
        names = files.list_directory("/data/t-0")
        assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
        # What a crash interrupted is done again.
        after_crash.clean()
        assert {key: (offset, value) for offset, key, value in content_of(reopened)} == newest
        assert len(content_of(reopened)) == 5
        cut_at += 1
    assert cut_at > 15
    assert outcomes == {5, 9}


def test_open_region_goes_on_reading_the_replaced_file(bench: Bench) -> None:
    log = filled(bench)
    region = log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset).region
    assert region is not None
    before = region.read()
    bench.clean()
    bench.world.scheduler.advance(120_000)
    assert region.read() == before
    assert log.segments[0].path == region.file.path
    after = log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset).region
    assert after is not None
    assert after.read() != before


def test_replaced_files_are_removed_after_the_delay(bench: Bench) -> None:
    log = filled(bench, file_delete_delay_ms="10000")
    bench.clean()
    directory = bench.root / "t-0"
    assert list(directory.glob("*.deleted"))
    bench.world.scheduler.advance(10_000)
    assert not list(directory.glob("*.deleted"))
    assert not list(directory.glob("*.cleaned"))
    assert len(content_of(log)) == 5


# ---- a log that changes meanwhile


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 6])
def test_truncation_in_the_middle_drops_the_cleaning(tmp_path: Path, steps: int) -> None:
    bench = Bench(tmp_path, immediate=False)
    log = bench.log()
    for number in range(4):
        bench.put(log, [(f"k{number}", "v" * STEP_BYTES), ("same", "v")])
        log.roll()
    run_steps(bench)
    bench.cleaner.start()
    run_steps(bench, count=steps)
    log.truncate_to(2)
    bench.cleaner.on_log_truncated(log, 2)
    log.update_high_watermark(2)
    run_steps(bench)
    assert bench.cleaner.statistics().running == 0
    assert not bench.cleaner.uncleanable
    expected = ["k0", "same"]
    assert [key for _, key, _ in content_of(log)] == expected
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    bench.put(log, [("same", "new")])
    log.roll()
    bench.clean()
    run_steps(bench)
    bench.world.scheduler.advance(60_000)
    run_steps(bench)
    assert [key for _, key, _ in content_of(log)] == ["k0", "same"]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 6])
def test_compact_and_delete_together(tmp_path: Path, steps: int) -> None:
    bench = Bench(tmp_path, immediate=False)
    log = bench.log(cleanup_policy="compact,delete", retention_ms="50000")
    for number in range(4):
        bench.put(log, [("same", f"{number}" * STEP_BYTES), (f"k{number}", "x")])
        log.roll()
        bench.world.scheduler.advance(20_000)
    run_steps(bench)
    bench.cleaner.start()
    run_steps(bench, count=steps)
    # Retention takes segments that the cleaner may be reading: they are gone for good.
    delete_expired(log, bench.now_ms)
    run_steps(bench)
    bench.world.scheduler.advance(16_000)
    run_steps(bench)
    delete_expired(log, bench.now_ms)
    keys = [key for _, key, _ in content_of(log)]
    assert "k0" not in keys or steps >= 6
    assert keys[-1] == "k3"
    assert keys.count("same") == 1
    assert not bench.cleaner.uncleanable
    bench.world.scheduler.advance(60_000)
    run_steps(bench)
    delete_expired(log, bench.now_ms)
    assert content_of(log) == []
    assert log.log_start_offset == 8


def test_deleted_log_is_forgotten(bench: Bench) -> None:
    log = filled(bench)
    bench.clean()
    assert bench.cleaner.cleaned_offset(log) == 9
    bench.cleaner.on_log_deleted(log.topic_partition, str(bench.root))
    assert bench.cleaner.cleaned_offset(log) is None
    assert (bench.root / "cleaner-offset-checkpoint").read_text() == "0\n0\n"


def test_moved_log_takes_its_checkpoint_along(bench: Bench, tmp_path: Path) -> None:
    log = filled(bench)
    bench.clean()
    target = tmp_path / "other"
    target.mkdir()
    bench.cleaner.on_log_moved(log.topic_partition, source=str(bench.root), target=str(target))
    assert (target / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 9\n"
    assert (bench.root / "cleaner-offset-checkpoint").read_text() == "0\n0\n"


def test_topic_that_is_no_longer_compacted_is_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path, immediate=False)
    log = filled(bench)
    run_steps(bench)
    bench.cleaner.start()
    log.configure(bench.log("other", cleanup_policy="delete").config)
    run_steps(bench)
    assert len(content_of(log)) == 9


def test_stop_in_the_middle(tmp_path: Path) -> None:
    bench = Bench(tmp_path, immediate=False)
    log = bench.log()
    for number in range(4):
        bench.put(log, [("same", f"{number}" * STEP_BYTES)])
        log.roll()
    run_steps(bench)
    bench.cleaner.start()
    for _ in range(5):
        bench.world.workers.run_one()
        bench.world.scheduler.run()
    bench.cleaner.stop()
    run_steps(bench)
    assert bench.cleaner.statistics().running == 0
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    assert len(content_of(log)) == 4
    bench.cleaner.start()
    run_steps(bench)
    assert len(content_of(log)) == 1


# ---- trouble


def test_damaged_log_is_set_aside_and_the_others_go_on(bench: Bench) -> None:
    bad, good = filled(bench, "bad"), filled(bench, "good")
    path = bench.root / "bad-0" / "00000000000000000003.log"
    damaged = bytearray(path.read_bytes())
    damaged[80] ^= 1
    path.write_bytes(damaged)
    bench.clean()
    assert list(bench.cleaner.uncleanable) == [TopicPartition("bad", 0)]
    assert bench.cleaner.statistics().uncleanable == 1
    assert len(content_of(good)) == 5
    assert [segment.base_offset for segment in bad.segments] == [0, 3, 6, 9]
    assert path.read_bytes() == damaged
    assert not list((bench.root / "bad-0").glob("*.cleaned"))


def test_batch_that_cannot_be_unpacked_sets_its_log_aside(bench: Bench) -> None:
    from ottla.records.build import assemble_batch
    from ottla.records.validate import AppendOrigin

    log = bench.log()
    lying = assemble_batch(
        b"these are no records",
        base_offset=0,
        last_offset_delta=1,
        record_count=2,
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
    )
    bench.append(log, lying, AppendOrigin.CLIENT)
    log.roll()
    bench.clean()
    assert list(bench.cleaner.uncleanable) == [log.topic_partition]


def test_full_disk_is_tried_again_later() -> None:
    files = MemoryFiles()
    bench = Bench(DATA, files=files)
    log = filled(bench)
    files.capacity_bytes = files.used_bytes()
    bench.clean()
    assert len(content_of(log)) == 9
    assert not bench.cleaner.uncleanable
    assert not [name for name in files.list_directory("/data/t-0") if name.endswith(".cleaned")]
    files.capacity_bytes = None
    bench.world.scheduler.advance(20_000)
    assert len(content_of(log)) == 5


def test_failing_disk_sets_the_log_aside() -> None:
    files = MemoryFiles()
    bench = Bench(DATA, files=files)
    log, other = filled(bench), filled(bench, "other")
    files.fail_next("read", OSError(errno.EIO, "input/output error"), path_contains="/t-0/")
    bench.clean()
    assert list(bench.cleaner.uncleanable) == [log.topic_partition]
    assert len(content_of(other)) == 5


# ---- whom and how fast


def test_dirtiest_log_comes_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, immediate=False)
    slightly, very = bench.log("slightly"), bench.log("very")
    for log in (slightly, very):
        bench.put(log, [("a", "v" * 1000)])
        log.roll()
    bench.clean()
    run_steps(bench)
    bench.put(slightly, [("a", "w")])
    bench.put(very, [("a", "w" * 1000)])
    slightly.roll()
    very.roll()
    bench.cleaner.wake()
    order = []
    while bench.world.workers.tasks:
        bench.world.workers.run_one()
        bench.world.scheduler.run()
        cleaned = bench.cleaner.last_cleaned
        assert cleaned is not None
        if cleaned.first_dirty_offset == 1 and cleaned.topic_partition.topic not in order:
            order.append(cleaned.topic_partition.topic)
    assert order == ["very", "slightly"]
    assert bench.cleaner.statistics().cleanings == 4


def test_several_workers_clean_different_logs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, immediate=False)
    logs = [filled(bench, f"t{number}") for number in range(5)]
    run_steps(bench)
    bench.cleaner = bench.new_cleaner(threads=3)
    bench.cleaner.start()
    assert bench.cleaner.statistics().running == 3
    run_steps(bench)
    assert [len(content_of(log)) for log in logs] == [5] * 5
    assert bench.cleaner.statistics().cleanings == 5


def test_number_of_workers_can_change(tmp_path: Path) -> None:
    from ottla.storage.cleaner.cleaner import CleanerSettings

    bench = Bench(tmp_path, immediate=False)
    logs = [filled(bench, f"t{number}") for number in range(4)]
    run_steps(bench)
    bench.cleaner.start()
    bench.cleaner.reconfigure(CleanerSettings(threads=2))
    assert bench.cleaner.statistics().running == 2
    bench.cleaner.reconfigure(CleanerSettings(threads=1))
    run_steps(bench)
    assert [len(content_of(log)) for log in logs] == [5] * 4


def test_disabled_cleaner_cleans_nothing(bench: Bench) -> None:
    log = filled(bench)
    bench.cleaner = bench.new_cleaner(is_enabled=False)
    bench.clean(seconds=60)
    assert len(content_of(log)) == 9


def test_cleaner_looks_again_after_the_backoff(bench: Bench) -> None:
    log = bench.log()
    bench.cleaner.start()
    bench.put(log, [("a", "1"), ("a", "2")])
    log.roll()
    bench.world.scheduler.advance(14_999)
    assert len(content_of(log)) == 2
    bench.world.scheduler.advance(2)
    assert len(content_of(log)) == 1


def test_throttle_stretches_the_work(bench: Bench) -> None:
    log = bench.log()
    for number in range(10):
        bench.put(log, [("same", f"{number}" * 100_000)])
    log.roll()
    bench.cleaner = bench.new_cleaner(io_bytes_per_second=500_000.0)
    start_ms = bench.now_ms
    bench.cleaner.start()
    while bench.cleaner.statistics().cleanings == 0:
        bench.world.scheduler.advance(100)
    # A megabyte is read twice, to build the map and to copy, and a tenth of it written.
    assert 3_500 <= bench.now_ms - start_ms <= 4_700
    assert len(content_of(log)) == 1


def test_throttle_is_paid_in_order() -> None:
    throttle = Throttle(bytes_per_second=1000.0)
    assert throttle.delay_seconds(500, now=10.0) == pytest.approx(0.5)
    assert throttle.delay_seconds(500, now=10.0) == pytest.approx(1.0)
    assert throttle.delay_seconds(500, now=20.0) == pytest.approx(0.5)
    assert throttle.delay_seconds(10**9, now=20.0) == pytest.approx(60.0)


# ---- the map


def test_full_map_ends_the_round_and_the_next_goes_on(bench: Bench) -> None:
    log = bench.log()
    for number in range(20):
        bench.put(log, [(f"k{number % 10}", str(number))])
    log.roll()
    bench.cleaner = bench.new_cleaner(dedupe_buffer_bytes=ENTRY_BYTES * 4, dedupe_load_factor=1.0)
    bench.clean()
    assert [offset for offset, _, _ in content_of(log)] == list(range(10, 20))
    assert bench.cleaner.statistics().cleanings >= 5
    assert bench.cleaner.cleaned_offset(log) == 20


def test_batch_larger_than_the_map_is_taken_all_the_same(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [(f"k{number}", "old") for number in range(10)])
    bench.put(log, [(f"k{number}", "new") for number in range(10)])
    log.roll()
    bench.cleaner = bench.new_cleaner(dedupe_buffer_bytes=ENTRY_BYTES * 4, dedupe_load_factor=1.0)
    bench.clean()
    assert [value for _, _, value in content_of(log)] == ["new"] * 10


def test_map_refuses_what_does_not_fit() -> None:
    offset_map = OffsetMap(capacity=2, secret=bytes(16))
    assert offset_map.put_all({b"a": 1, b"b": 2})
    assert offset_map.put_all({b"a": 3})
    assert not offset_map.put_all({b"a": 4, b"c": 5})
    assert (offset_map.newest(b"a"), offset_map.newest(b"b"), offset_map.newest(b"c")) == (3, 2, -1)
    assert offset_map.utilization == 1.0


# ---- the checkpoint


def test_checkpoint_is_kafkas_file_and_survives_a_restart(bench: Bench) -> None:
    log = filled(bench)
    bench.clean()
    assert (bench.root / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 9\n"
    bench.cleaner.stop()
    bench.cleaner = bench.new_cleaner()
    bench.clean(seconds=60)
    assert bench.cleaner.statistics().cleanings == 0
    assert bench.cleaner.cleaned_offset(log) == 9


def test_dropped_cleaning_that_swapped_something_is_on_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, immediate=False)
    log = bench.log(internal_segment_bytes=str(STEP_BYTES * 3 // 2))
    for number in range(4):
        bench.put(log, [("same", f"{number}" * STEP_BYTES)])
        log.roll()
    run_steps(bench)
    bench.cleaner.start()
    while bench.cleaner.cleaned_offset(log) is None:
        run_steps(bench, count=1)
    assert len(content_of(log)) < 4
    bench.cleaner.abort(log.topic_partition)
    run_steps(bench)
    assert bench.cleaner.statistics().cleanings == 0
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 0\n"


@pytest.mark.parametrize("text", ["0\n1\nt 0 9999\n", "nonsense", "0\n7\nt 0 1\n"])
def test_checkpoint_that_cannot_be_is_ignored(bench: Bench, text: str) -> None:
    log = filled(bench)
    (bench.root / "cleaner-offset-checkpoint").write_text(text)
    bench.clean()
    assert bench.cleaner.cleaned_offset(log) == 9
    assert len(content_of(log)) == 5


def test_checkpoint_below_the_log_start_is_set_right(bench: Bench) -> None:
    log = filled(bench)
    (bench.root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    log.advance_log_start_offset(4)
    bench.clean()
    assert bench.cleaner.cleaned_offset(log) == 9
    region = log.read(4, max_bytes=1 << 20, end_offset=9).region
    assert region is not None
    assert next(iterate_batches(region.read())).header.last_offset >= 4


def test_truncation_takes_the_checkpoint_back(bench: Bench) -> None:
    log = filled(bench)
    bench.clean()
    log.truncate_to(7)
    bench.cleaner.on_log_truncated(log, 7)
    assert bench.cleaner.cleaned_offset(log) == 7
    bench.cleaner.on_log_truncated(log, 8)
    assert bench.cleaner.cleaned_offset(log) == 7


def test_unwritable_checkpoint_does_not_stop_the_cleaner() -> None:
    files = MemoryFiles()
    bench = Bench(DATA, files=files)
    log = filled(bench)
    files.fail_next("rename", OSError(errno.EIO, "input/output error"), path_contains="cleaner-offset")
    files.fail_next("write_atomically", OSError(errno.EIO, "input/output error"), path_contains="cleaner-offset")
    bench.clean()
    assert len(content_of(log)) == 5
    cleaner: LogCleaner = bench.cleaner
    assert cleaner.cleaned_offset(log) == 9
