"""The map of offsets against a plain list of pairs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.mirror.offset_map import OffsetMap, Run
from ottla.model.ids import TopicPartition


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5)), max_size=30))
def test_every_offset_is_translated_to_the_next_copied_record(runs: list[tuple[int, int, int]]) -> None:
    """`runs`: gap at the source, gap at the target, length."""
    copied: list[tuple[int, int]] = []
    offset_map = OffsetMap()
    source = target = 10
    for source_gap, target_gap, length in runs:
        source, target = source + source_gap, target + target_gap
        offset_map.add(Run(source, target, length))
        copied += [(source + index, target + index) for index in range(length)]
        source, target = source + length, target + length
    for offset in range(5, source + 5):
        behind = [place for place in copied if place[0] >= offset]
        expected = behind[0][1] if behind else (copied[-1][1] + 1 if copied else None)
        assert offset_map.translate(offset) == expected


def test_runs_that_continue_each_other_are_one() -> None:
    offset_map = OffsetMap()
    for run in (Run(0, 5, 10), Run(10, 15, 3), Run(13, 19, 2)):
        offset_map.add(run)
    assert list(offset_map) == [Run(0, 5, 13), Run(13, 19, 2)]


def test_a_topic_that_was_made_again_begins_anew() -> None:
    offset_map = OffsetMap()
    offset_map.add(Run(0, 0, 100))
    offset_map.add(Run(100, 101, 100))
    offset_map.add(Run(0, 202, 10))
    assert list(offset_map) == [Run(0, 202, 10)]


def test_a_run_survives_its_record() -> None:
    place, run = TopicPartition("a.topic-1", 7), Run(1 << 40, 3, 9)
    assert Run.decode(run.key(place), run.value()) == (place, run)
    assert Run.decode(run.key(place), None) == (place, run._replace(length=0))


def test_what_the_source_has_deleted_is_forgotten() -> None:
    runs = [Run(0, 0, 10), Run(10, 11, 10), Run(20, 22, 10)]
    offset_map, again = OffsetMap(), OffsetMap()
    for run in runs:
        offset_map.add(run)
        again.add(run)
    assert offset_map.forget_before(9) == []
    assert offset_map.forget_before(15) == runs[:1]
    assert offset_map.translate(15) == 16
    assert offset_map.forget_before(1_000) == runs[1:2], "the last run says where the copy ends"
    assert offset_map.translate(1_000) == 32
    again.forget(Run(0, 999, 0))
    again.forget(Run(5, 0, 0))
    assert list(again) == runs
    again.forget(runs[0])
    assert list(again) == runs[1:]


def filled(runs: list[tuple[int, int, int]]) -> tuple[OffsetMap, list[tuple[int, int]], list[Run]]:
    """`runs`: gap at the source, gap at the target, length. Also the offsets of all records, and the runs."""
    offset_map = OffsetMap()
    copied: list[tuple[int, int]] = []
    added = []
    source = target = 10
    for source_gap, target_gap, length in runs:
        source, target = source + source_gap, target + target_gap
        added.append(Run(source, target, length))
        offset_map.add(added[-1])
        copied += [(source + index, target + index) for index in range(length)]
        source, target = source + length, target + length
    return offset_map, copied, added


# A marker of the target is behind every run.
RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(1, 5)), min_size=1, max_size=60)


@given(RUNS, st.integers(4, 20))
def test_a_thinned_map_skips_no_record(runs: list[tuple[int, int, int]], limit: int) -> None:
    offset_map, copied, _ = filled(runs)
    exact, _, _ = filled(runs)
    for _ in range(2):
        offset_map.thin(limit)
    assert len(offset_map) <= limit
    assert list(offset_map)[-(limit // 2) :] == list(exact)[-(limit // 2) :], "the newest stay"
    for offset in range(5, copied[-1][0] + 3):
        translated, wanted = offset_map.translate(offset), exact.translate(offset)
        assert translated is not None
        assert wanted is not None
        assert translated <= wanted
    for offset in range(5, copied[-1][1] + 3):
        first, expected = offset_map.source_of_first_copied(offset), exact.source_of_first_copied(offset)
        assert (first is None) is (expected is None)
        assert first is None or (expected is not None and first <= expected)


@given(RUNS, st.integers(4, 20), st.booleans())
def test_a_thinned_map_is_read_again_as_it_is(runs: list[tuple[int, int, int]], limit: int, compacted: bool) -> None:
    """From all records of the topic, or from the last one of each key."""
    place = TopicPartition("t", 0)
    offset_map, _, added = filled(runs)
    thinned, removed = offset_map.thin(limit)
    records = [(run.key(place), run.value()) for run in (*added, *thinned)] + [
        (run.key(place), None) for run in removed
    ]
    if compacted:
        last = {key: index for index, (key, _) in enumerate(records)}
        records = [record for index, record in enumerate(records) if last[record[0]] == index]
    again = OffsetMap()
    for key, value in records:
        _, run = Run.decode(key, value)
        if run.length:
            again.add(run)
        else:
            again.forget(run)
    assert list(again) == list(offset_map)


@given(RUNS, st.integers(4, 20))
def test_a_thinned_map_is_early_by_the_offsets_without_records_only(
    runs: list[tuple[int, int, int]], limit: int
) -> None:
    offset_map, copied, added = filled(runs)
    exact, _, _ = filled(runs)
    for _ in range(3):
        offset_map.thin(limit)
    kept = list(offset_map)
    for offset in range(kept[0].source_offset, copied[-1][0]):
        translated, wanted = offset_map.translate(offset), exact.translate(offset)
        assert translated is not None
        assert wanted is not None
        before = max(run.source_offset for run in kept if run.source_offset <= offset)
        behind = (
            min(run.source_offset for run in kept if run.source_offset > before) if before != kept[-1][0] else before
        )
        among = [run for run in added if before <= run.source_offset < behind]
        gaps_of_target = sum(
            after.target_offset - run.target_offset - run.length for run, after in pairwise(added) if run in among
        )
        gaps_of_source = sum(
            after.source_offset - run.source_offset - run.length for run, after in pairwise(added) if run in among
        )
        assert wanted - translated <= gaps_of_target + gaps_of_source


def test_a_map_that_is_half_thinned_skips_no_record() -> None:
    """The mirror dies after some of the runs were deleted, and the next one thins the map again."""
    runs = [(0, 1, 5)] * 40
    place = TopicPartition("t", 0)
    thinner, copied, added = filled(runs)
    exact, _, _ = filled(runs)
    thinned, removed = thinner.thin(20)
    again = OffsetMap()
    for run in (*added, *thinned):
        again.add(Run.decode(run.key(place), run.value())[1])
    for count, run in enumerate(removed):
        again.forget(run)
        for offset in range(5, copied[-1][0] + 3):
            translated, wanted = again.translate(offset), exact.translate(offset)
            assert translated is not None
            assert wanted is not None
            assert translated <= wanted, (count, offset)
        if count == len(removed) // 2:
            again.thin(12)


def test_a_thinned_run_of_an_earlier_version_is_read() -> None:
    place, run = TopicPartition("t", 0), Run(3, 4, 5)
    assert Run.decode(run.key(place), b"\0\0\0\5\1") == (place, run._replace(is_thinned=True))
    thinned = run._replace(is_thinned=True, taken_records=1 << 40, next_target=1 << 41)
    assert Run.decode(thinned.key(place), thinned.value()) == (place, thinned)
