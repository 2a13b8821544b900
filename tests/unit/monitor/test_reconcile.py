"""The comparison of stages, without a cluster."""

from __future__ import annotations

import random

from ottla.monitor.reconcile.books import StageBooks
from ottla.monitor.reconcile.comparison import compare, summarize
from ottla.monitor.reconcile.counts import Count, read_count
from ottla.monitor.reconcile.stamps import HEADER, NumberSet, Stamp, read_stamp

ORIGIN = b"producer"


def books(name: str, *stamps: tuple[int, int], delay_ms: int = 0) -> StageBooks:
    """Number and time of every record."""
    stage_books = StageBooks(name, bucket_ms=1_000, late_after_ms=500)
    for number, time_ms in stamps:
        stage_books.add(time_ms + delay_ms, Stamp(ORIGIN, number, time_ms))
    return stage_books


def test_intervals_are_a_set() -> None:
    generator = random.Random(7)
    for _ in range(200):
        sets: list[set[int]] = [set(), set()]
        number_sets = [NumberSet(), NumberSet()]
        for _ in range(generator.randrange(40)):
            set_index, number = generator.randrange(2), generator.randrange(30)
            assert number_sets[set_index].add(number) is (number not in sets[set_index])
            sets[set_index].add(number)
        for numbers, expected in zip(number_sets, sets, strict=True):
            listed = [number for start, end in numbers.intervals() for number in range(start, end)]
            assert listed == sorted(expected)
            assert [number in numbers for number in range(30)] == [number in expected for number in range(30)]
        left = number_sets[0].without(number_sets[1])
        assert {n for start, end in left.intervals() for n in range(start, end)} == sets[0] - sets[1]
        assert len(left) == len(sets[0] - sets[1])


def test_stages_that_agree_are_clean() -> None:
    rows = compare([books("a", (0, 10), (1, 1_500)), books("b", (1, 1_500), (0, 10))], from_ms=0, to_ms=2_000)
    assert [row.bucket_ms for row in rows] == [0, 1_000]
    assert all(row.is_clean for row in rows)


def test_missing_doubled_and_late_records_are_named_by_bucket_and_stage() -> None:
    first = books("a", *((number, number * 100) for number in range(10)))
    second = books("b", (0, 0), (1, 100), (1, 100), *((number, number * 100) for number in range(5, 10)), delay_ms=501)
    (row,) = compare([first, second], from_ms=0, to_ms=1_000)
    source, copy = row.stages
    assert source.is_clean
    assert (copy.records, copy.missing, copy.doubled, copy.late) == (8, 3, 1, 8)
    assert copy.named == (f"{ORIGIN.hex()}:2-4",)
    assert summarize([row])[1].missing == 3


def test_records_without_stamps_are_compared_by_their_count() -> None:
    first, second = StageBooks("a", 1_000, 0), StageBooks("b", 1_000, 0)
    for at in (0, 1, 1_001):
        first.add(at, None)
    for at in (0, 1_001, 1_002):
        second.add(at, None)
    rows = compare([first, second], from_ms=0, to_ms=2_000)
    assert [(row.stages[1].missing, row.stages[1].doubled) for row in rows] == [(1, 0), (0, 1)]
    assert not rows[0].stages[1].is_by_stamp


def test_only_whole_buckets_of_the_range_count() -> None:
    first = books("a", (0, 10), (1, 1_500), (2, 2_500))
    assert [row.bucket_ms for row in compare([first], from_ms=1_000, to_ms=2_000)] == [1_000]
    assert summarize([]) == []


def test_foreign_bytes_are_no_stamp_and_no_count() -> None:
    stamp = Stamp(ORIGIN, 5, 77)
    assert read_stamp([("x", b"1"), (HEADER, stamp.encode())]) == stamp
    assert read_stamp([(HEADER, b"short"), (HEADER, None)]) is None
    assert read_count(b'["produced", "t", 10000, "p"]', b"12") == Count("produced", "t", 10_000, "p", 12)
    for key, value in ((None, b"1"), (b"{}", b"1"), (b'["a", "b", 1, "c"]', b"x"), (b'["a", "b", 1, "c"]', None)):
        assert read_count(key, value) is None


def test_counts_do_not_hide_what_stamps_prove() -> None:
    first = StageBooks("produced", 1_000, 500)
    first.add_count(0, 3)
    second = books("log", (0, 10), (1, 20), (1, 20))
    (row,) = compare([first, second], from_ms=0, to_ms=1_000)
    assert (row.stages[1].records, row.stages[1].missing, row.stages[1].doubled) == (3, 1, 1)
