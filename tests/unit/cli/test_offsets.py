"""Resetting offsets, and their files."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.logic.offset_csv import read_offsets, write_offsets
from ottla.cli.logic.offset_reset import chosen_reset, clamp, targets
from ottla.model.ids import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
FIRST = {A: 10, B: 0}
LAST = {A: 100, B: 50}
COMMITTED = {A: 40}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"to_earliest": True}, {A: 10, B: 0}),
        ({"to_latest": True}, {A: 100, B: 50}),
        ({"to_current": True}, {A: 40, B: 50}),
        ({"to_offset": 60}, {A: 60, B: 50}),
        ({"to_offset": 3}, {A: 10, B: 3}),
        ({"to_datetime": "1970-01-01T00:00:00.000"}, {A: 77, B: 7}),
        ({"by_duration": "PT1H"}, {A: 77, B: 7}),
        ({"from_file": "x"}, {A: 11, B: 12}),
    ],
)
def test_every_method(how: dict[str, Any], expected: dict[TopicPartition, int]) -> None:
    planned = targets(
        chosen_reset(**how),
        [A, B],
        first=FIRST,
        last=LAST,
        committed=COMMITTED,
        by_time={A: 77, B: 7},
        wanted={A: 11, B: 12},
    )
    assert clamp(planned, first=FIRST, last=LAST) == expected


def test_shifting_needs_somewhere_to_shift_from() -> None:
    def shift(*partitions: TopicPartition) -> dict[TopicPartition, int]:
        planned = targets(
            chosen_reset(shift_by=-35), partitions, first=FIRST, last=LAST, committed=COMMITTED, by_time={}, wanted={}
        )
        return clamp(planned, first=FIRST, last=LAST)

    assert shift(A) == {A: 10}
    with pytest.raises(ValueError, match="b-1"):
        shift(B)


@pytest.mark.parametrize(
    "how", [{}, {"to_earliest": True, "to_latest": True}, {"to_datetime": "x"}, {"by_duration": "x"}]
)
def test_exactly_one_method_that_makes_sense(how: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        chosen_reset(**how)


def test_a_duration_counts_back_from_now() -> None:
    assert chosen_reset(by_duration="PT1S").time(now_ms=5_000) == 4_000
    assert chosen_reset(to_latest=True).time(now_ms=5_000) is None


def test_files_of_one_group_and_of_several() -> None:
    single = {"g": {A: 1, B: 2}}
    assert write_offsets(single) == "a,0,1\nb,1,2\n"
    assert read_offsets(write_offsets(single), groups=["g"]) == single
    several = {"g": {A: 1}, "h, too": {B: 2}}
    assert write_offsets(several) == 'g,a,0,1\n"h, too",b,1,2\n'
    assert read_offsets(write_offsets(several), groups=["g", "h, too"]) == several


@pytest.mark.parametrize("text", ["a,0", "a,x,1", "a,0,1", "g,a,0,x"])
def test_lines_that_say_nothing(text: str) -> None:
    groups = ["g", "h"] if text == "a,0,1" else ["g"]
    with pytest.raises(ValueError, match="Line 1"):
        read_offsets(text, groups=groups)
