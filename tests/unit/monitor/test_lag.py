"""The judgement about a group, rule by rule."""

from __future__ import annotations

import pytest

from ottla.monitor.lag import LagSample, LagWindow, Status, judge, worst


def samples(*pairs: tuple[int, int], members: bool = True) -> list[LagSample]:
    return [LagSample(float(at), committed, end, members) for at, (committed, end) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("status", "window"),
    [
        (Status.OK, samples((0, 10), (0, 10), (10, 10))),
        (Status.OK, samples((0, 10), (5, 20), (14, 25))),
        (Status.OK, samples((0, 10), (10, 10), (10, 30))),
        (Status.WARNING, samples((0, 10), (5, 20), (8, 40))),
        (Status.WARNING, samples((0, 10), (5, 15), (10, 20))),
        (Status.STALLED, samples((5, 10), (5, 20), (5, 40))),
        (Status.STALLED, samples((5, 10), (5, 10), (5, 10))),
        (Status.STOPPED, samples((5, 10), (5, 20), (5, 40), members=False)),
        (Status.REWIND, samples((5, 10), (9, 10), (2, 10))),
        (Status.REWIND, samples((9, 10), (2, 10), (4, 10))),
        (Status.OK, samples((9, 30), (2, 30), (12, 30))),
        # A simple consumer commits without being a member, and makes progress.
        (Status.OK, samples((5, 20), (9, 20), (15, 20), members=False)),
        # Two samples are too few to detect movement.
        (Status.OK, samples((5, 10), (5, 10))),
        (Status.OK, []),
    ],
)
def test_the_movement_of_a_window_decides(status: Status, window: list[LagSample]) -> None:
    assert judge(window) is status


def test_old_samples_leave_the_window() -> None:
    window = LagWindow(3)
    for sample in samples((10, 10), (10, 11), (10, 12)):
        assert window.add(sample) is Status.OK
    assert window.add(LagSample(4.0, 10, 13, True)) is Status.STALLED


def test_a_group_is_as_bad_as_its_worst_partition() -> None:
    assert worst([Status.OK, Status.STALLED, Status.WARNING]) is Status.STALLED
    assert worst([]) is Status.OK
