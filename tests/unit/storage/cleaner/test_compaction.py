"""The content of a compacted log after arbitrary writes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.errors import KafkaError
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.iterate import iterate_batches
from ottla.records.legacy import build_message_set
from ottla.records.record import Record
from ottla.records.validate import AppendOrigin
from ottla.storage import lookups
from ottla.storage.cleaner.batch_filter import BatchFilter
from ottla.storage.cleaner.offset_map import OffsetMap
from ottla.storage.cleaner.transactions import CleanedTransactions
from tests.unit.storage.cleaner.cleaned_logs import Bench, batches_of, content_of, records_of


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_newest_value_of_each_key_is_kept_with_its_offset(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("b", "2"), ("a", "3")])
    bench.put(log, [("c", "4"), ("b", "5")])
    log.roll()
    bench.put(log, [("a", "active")])
    bench.clean()
    assert content_of(log) == [(2, "a", "3"), (3, "c", "4"), (4, "b", "5"), (5, "a", "active")]
    assert [(batch.header.base_offset, batch.header.last_offset) for batch in batches_of(log)] == [
        (0, 2),
        (3, 4),
        (5, 5),
    ]
    assert bench.cleaner.cleaned_offset(log) == 5


def test_active_segment_is_never_cleaned(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("a", "2")])
    bench.clean()
    assert len(content_of(log)) == 2
    assert bench.cleaner.statistics().cleanings == 0


def test_second_round_cleans_what_the_first_kept(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("b", "1")])
    log.roll()
    bench.clean()
    bench.put(log, [("a", "2")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "b", "1"), (2, "a", "2")]
    assert bench.cleaner.statistics().cleanings == 2


def test_a_clean_log_is_left_alone(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("b", "2")])
    log.roll()
    before = log.segments[0]
    bench.clean()
    assert log.segments[0] is before
    bench.clean(seconds=60)
    assert bench.cleaner.statistics().cleanings == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_codec_stays_when_records_go(bench: Bench, codec: Codec) -> None:
    log = bench.log()
    bench.put(log, [("a", "x" * 500), ("b", "y" * 500)], codec=codec)
    bench.put(log, [("a", "z" * 500)], codec=codec)
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "b", "y" * 500), (2, "a", "z" * 500)]
    assert {batch.header.codec for batch in batches_of(log)} == {codec}


def test_records_without_key_go(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [(None, "1"), ("a", "2")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "a", "2")]
    assert bench.cleaner.last_cleaned is not None
    assert bench.cleaner.last_cleaned.keyless_records == 1


def test_what_lies_beyond_the_map_is_not_judged() -> None:
    batch_filter = BatchFilter(
        OffsetMap(capacity=1, secret=bytes(16)),
        CleanedTransactions(),
        now_ms=0,
        delete_retention_ms=0,
        last_records={},
        upper_bound_offset=100,
    )
    batch = next(iterate_batches(build_batch([Record(value=b"keyless")], base_offset=5)))
    assert batch_filter.filter(batch) is batch.view


def test_long_keys_are_told_apart(bench: Bench) -> None:
    log = bench.log()
    long = "k" * 100
    bench.put(log, [(long + "1", "1"), (long + "2", "2"), (long + "1", "3"), ("k" * 15, "4"), ("k" * 16, "5")])
    log.roll()
    bench.clean()
    assert [offset for offset, _, _ in content_of(log)] == [1, 2, 3, 4]


def test_small_segments_are_merged_up_to_segment_bytes(bench: Bench) -> None:
    log = bench.log()
    for number in range(6):
        bench.put(log, [(f"k{number}", "v" * 300)])
        log.roll()
    bench.clean()
    assert len(log.segments) == 2
    assert [record.offset for record in records_of(log)] == list(range(6))

    narrow = bench.log("narrow", segment_bytes=str(1024 * 1024), internal_segment_bytes="1000")
    for number in range(6):
        bench.put(narrow, [(f"k{number}", "v" * 300)])
        narrow.roll()
    bench.clean()
    assert [segment.base_offset for segment in narrow.segments] == [0, 2, 4, 6]


def test_segment_that_loses_everything_leaves_no_hole_for_readers(bench: Bench) -> None:
    log = bench.log(internal_segment_bytes="200")
    bench.put(log, [("a", "1" * 60)])
    bench.put(log, [("b", "1" * 60)])
    bench.put(log, [("a", "2" * 60)])
    bench.put(log, [("b", "2" * 60)])
    log.roll()
    bench.clean()
    assert [offset for offset, _, _ in content_of(log)] == [2, 3]
    for offset in range(log.log_end_offset):
        region = log.read(offset, max_bytes=1000, end_offset=log.log_end_offset).region
        assert region is not None


def test_last_batch_of_the_cleaned_part_stays_as_an_empty_one(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", None)])
    log.roll()
    bench.clean()
    bench.world.scheduler.advance(2000)
    bench.put(log, [("b", "1")])
    bench.put(log, [("a", "1")])
    bench.put(log, [("a", None)])
    log.roll()
    bench.clean()
    bench.world.scheduler.advance(2000)
    bench.put(log, [("c", "1")])
    bench.put(log, [(None, "x")])
    log.roll()
    bench.clean()
    last = batches_of(log)[-1].header
    assert (last.base_offset, last.record_count, last.next_offset) == (5, 0, 6)
    assert content_of(log) == [(1, "b", "1"), (4, "c", "1")]


# ---- tombstones


def test_tombstone_stays_for_its_window_and_goes_after_it(bench: Bench) -> None:
    log = bench.log(delete_retention_ms="5000")
    bench.put(log, [("a", "1"), ("b", "1")])
    deleted_at = bench.put(log, [("a", None)], timestamp=777)
    log.roll()
    cleaned_at_ms = bench.now_ms
    bench.clean()
    assert content_of(log) == [(1, "b", "1"), (deleted_at, "a", None)]
    [_, tombstone] = batches_of(log)
    assert tombstone.header.delete_horizon_ms == cleaned_at_ms + 5000
    assert records_of(log)[-1].timestamp == 777
    assert tombstone.header.max_timestamp == 777

    bench.put(log, [("c", "1")])
    log.roll()
    bench.clean()
    assert (deleted_at, "a", None) in content_of(log)
    assert batches_of(log)[1].header.delete_horizon_ms == cleaned_at_ms + 5000

    bench.world.scheduler.advance(5000)
    bench.put(log, [("d", "1")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


def test_timestamps_survive_the_delete_horizon(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", None)], timestamp=123)
    bench.put(log, [("b", "1")], timestamp=456)
    log.roll()
    bench.clean()
    assert [record.timestamp for record in records_of(log)] == [123, 456]
    result = log.offset_for_timestamp(400).result()
    assert result is not None
    assert result.offset == 1


def test_newer_value_removes_a_tombstone_at_once(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", None), ("a", "back")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "a", "back")]


# ---- when


def test_dirty_ratio_has_to_be_exceeded(bench: Bench) -> None:
    log = bench.log(min_cleanable_dirty_ratio="0.5")
    bench.put(log, [(f"k{number}", "v" * 100) for number in range(50)])
    log.roll()
    bench.clean()
    assert bench.cleaner.cleaned_offset(log) == 50
    bench.put(log, [("k1", "w" * 100)] * 10)
    log.roll()
    bench.clean()
    assert bench.cleaner.cleaned_offset(log) == 50
    bench.put(log, [("k1", "w" * 100)] * 80)
    log.roll()
    bench.clean()
    assert bench.cleaner.cleaned_offset(log) == 140


def test_min_lag_keeps_young_segments_dirty(bench: Bench) -> None:
    log = bench.log(min_compaction_lag_ms="10000")
    bench.put(log, [("a", "1"), ("a", "2")])
    log.roll()
    bench.world.scheduler.advance(6000)
    bench.put(log, [("a", "3")])
    log.roll()
    bench.clean()
    assert len(content_of(log)) == 3
    bench.world.scheduler.advance(5000)
    bench.clean()
    assert content_of(log) == [(1, "a", "2"), (2, "a", "3")]
    bench.world.scheduler.advance(10000)
    bench.clean()
    assert content_of(log) == [(2, "a", "3")]


def test_max_lag_overrides_the_dirty_ratio(bench: Bench) -> None:
    log = bench.log(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="10000")
    bench.put(log, [("a", "1"), ("a", "2")])
    log.roll()
    bench.clean()
    assert len(content_of(log)) == 2
    bench.clean(seconds=30)
    assert content_of(log) == [(1, "a", "2")]


def test_max_lag_closes_the_active_segment_in_time(bench: Bench) -> None:
    log = bench.log(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="10000")
    bench.put(log, [("a", "1"), ("a", "2")])
    bench.world.scheduler.advance(10_000)
    bench.put(log, [("b", "1")])
    assert len(log.segments) == 1
    bench.world.scheduler.advance(1)
    bench.put(log, [("c", "1")])
    assert len(log.segments) == 2
    bench.clean()
    assert [offset for offset, _, _ in content_of(log)] == [1, 2, 3]


def test_nothing_above_the_high_watermark_is_cleaned(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("a", "2")])
    log.roll()
    bench.put(log, [("a", "3")])
    log.roll()
    log.update_high_watermark(2)
    bench.clean()
    assert content_of(log) == [(1, "a", "2"), (2, "a", "3")]


# ---- producers and transactions


def test_last_batch_of_a_producer_keeps_its_sequence_number(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1")], producer_id=7, base_sequence=0)
    bench.put(log, [("a", "2"), ("b", "1")], producer_id=7, base_sequence=1)
    bench.put(log, [("a", "3"), ("b", "2")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(3, "a", "3"), (4, "b", "2")]
    kept = batches_of(log)[0].header
    assert (kept.producer_id, kept.record_count, kept.base_sequence, kept.last_sequence) == (7, 0, 1, 2)
    log.close()
    for path in (bench.root / "t-0").glob("*.snapshot"):
        path.unlink()
    reopened = bench.log()
    with pytest.raises(KafkaError):
        bench.put(reopened, [("c", "1")], producer_id=7, base_sequence=4)
    bench.put(reopened, [("c", "1")], producer_id=7, base_sequence=3)


def test_aborted_records_go_and_their_marker_follows_after_the_horizon(bench: Bench) -> None:
    log = bench.log(delete_retention_ms="5000")
    bench.put(log, [("a", "kept")])
    bench.put(log, [("a", "aborted")], producer_id=1, base_sequence=0, is_transactional=True)
    bench.end_transaction(log, 1, is_commit=False)
    bench.put(log, [("z", "1")], producer_id=1, base_sequence=1)
    log.roll()
    bench.clean()
    # The aborted value does not count as the newest, and the marker stays while consumers may be inside.
    assert content_of(log) == [(0, "a", "kept"), (3, "z", "1")]
    assert [batch.header.base_offset for batch in batches_of(log) if batch.header.is_control] == [2]

    bench.put(log, [("y", "1")])
    log.roll()
    bench.clean()
    marker = next(batch.header for batch in batches_of(log) if batch.header.is_control)
    assert marker.delete_horizon_ms is not None

    bench.world.scheduler.advance(6000)
    bench.put(log, [("x", "1")])
    log.roll()
    bench.clean()
    assert not any(batch.header.is_control for batch in batches_of(log))
    assert lookups.aborted_transactions(log.segments, 0, log.log_end_offset) == []


def test_transaction_index_follows_markers_that_stay(bench: Bench) -> None:
    log = bench.log(internal_segment_bytes="300")
    bench.put(log, [("a", "x" * 150)], producer_id=1, base_sequence=0, is_transactional=True)
    log.roll()
    bench.end_transaction(log, 1, is_commit=False)
    log.roll()
    before = lookups.aborted_transactions(log.segments, 0, 10)
    assert len(before) == 1
    bench.clean()
    # The data was removed in this round, but a reader may hold it: index entry and marker stay until the next round.
    assert lookups.aborted_transactions(log.segments, 0, 10) == before


def test_committed_records_stay_and_their_marker_with_them(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("b", "1")], producer_id=1, base_sequence=0, is_transactional=True)
    bench.end_transaction(log, 1, is_commit=True)
    bench.put(log, [("a", "2")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "b", "1"), (3, "a", "2")]
    marker = next(batch.header for batch in batches_of(log) if batch.header.is_control)
    assert marker.delete_horizon_ms is None


def test_what_a_producer_commits_after_an_abort_that_was_cleaned_long_ago_replaces_what_was(bench: Bench) -> None:
    log = bench.log(delete_retention_ms="5000")
    bench.put(log, [("a", "aborted")], producer_id=1, base_sequence=0, is_transactional=True)
    bench.end_transaction(log, 1, is_commit=False)
    bench.put(log, [("a", "old"), ("b", "old")])
    log.roll()
    bench.clean()
    bench.put(log, [("a", None), ("b", "new")], producer_id=1, base_sequence=1, is_transactional=True)
    bench.end_transaction(log, 1, is_commit=True)
    log.roll()
    bench.clean()
    assert content_of(log) == [(4, "a", None), (5, "b", "new")]

    # A deleted value does not reappear after its tombstone is removed.
    for key in "xy":
        bench.world.scheduler.advance(6000)
        bench.put(log, [(key, "1")])
        log.roll()
        bench.clean()
    assert [key for _, key, _ in content_of(log)] == ["b", "x", "y"]


def test_undecided_transactions_are_not_cleaned(bench: Bench) -> None:
    log = bench.log()
    bench.put(log, [("a", "1"), ("a", "2")])
    log.roll()
    bench.put(log, [("a", "open")], producer_id=1, base_sequence=0, is_transactional=True)
    bench.put(log, [("a", "3")])
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "a", "2"), (2, "a", "open"), (3, "a", "3")]


# ---- old formats


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_are_cleaned_too(bench: Bench, magic: int, codec: Codec) -> None:
    pairs = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", None)]
    records = [Record(key=key, value=value, timestamp=5, offset=offset) for offset, (key, value) in enumerate(pairs)]
    log = bench.log()
    log.append_as_follower(build_message_set(records, magic=magic, codec=codec))
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    bench.clean()
    assert content_of(log) == [(1, "b", "1"), (2, "a", "2"), (3, "c", None)]


# ---- any workload


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[object, ...]]:
    pair = st.tuples(st.sampled_from("abcdefgh"), st.none() | st.sampled_from(["1", "2", "3"]))
    put = st.tuples(st.just("put"), st.lists(pair, min_size=1, max_size=5), st.sampled_from(Codec))
    other = st.sampled_from([("roll",), ("roll",), ("clean",), ("wait",), ("reopen",)])
    return draw(st.lists(put | other, min_size=1, max_size=30))


@given(steps=workloads())
@settings(max_examples=60, deadline=None)
def test_replay_of_a_compacted_log_is_the_last_value_of_each_key(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        log = bench.log(delete_retention_ms="3000")
        newest: dict[str, tuple[int, str | None]] = {}
        for step in [*steps, ("roll",), ("clean",)]:
            if step[0] == "put":
                pairs: list[tuple[str, str | None]] = step[1]  # type: ignore[assignment]
                first = bench.put(log, pairs, codec=step[2])  # type: ignore[arg-type]
                for index, (key, value) in enumerate(pairs):
                    newest[key] = (first + index, value)
            elif step[0] == "roll":
                log.roll()
            elif step[0] == "clean":
                bench.clean()
            elif step[0] == "wait":
                bench.world.scheduler.advance(2000)
            else:
                log.close()
                log = bench.log(delete_retention_ms="3000")
        replayed: dict[str, tuple[int, str | None]] = {}
        offsets = []
        for offset, key, value in content_of(log):
            assert key is not None
            replayed[key] = (offset, value)
            offsets.append(offset)
        assert offsets == sorted(set(offsets))
        for key, (offset, value) in newest.items():
            # A tombstone may be gone; every other newest record must exist at its original offset.
            assert replayed.pop(key, (offset, None)) == (offset, value)
        assert replayed == {}
        live = [key for key, (_, value) in newest.items() if value is not None]
        assert sum(value is not None for _, _, value in content_of(log)) == len(live)
        assert not bench.cleaner.uncleanable


def test_client_appends_go_on_between_steps(tmp_path: Path) -> None:
    bench = Bench(tmp_path, immediate=False)
    log = bench.log(internal_segment_bytes="300000")
    for number in range(120):
        bench.put(log, [(f"k{number % 5}", "v" * 10_000)])
    log.roll()
    bench.cleaner.start()
    steps = 0
    while bench.world.workers.tasks:
        bench.world.workers.run_one()
        bench.append(log, _live_batch(f"live{steps}"), AppendOrigin.CLIENT)
        bench.world.scheduler.run()
        steps += 1
    assert steps > 10
    content = content_of(log)
    assert [key for _, key, _ in content[:5]] == [f"k{number}" for number in range(5)]
    assert [key for _, key, _ in content[5:]] == [f"live{number}" for number in range(steps)]


def _live_batch(key: str) -> bytearray:
    return build_batch([Record(key=key.encode(), value=b"x", timestamp=1)])
