"""Steps are the same each time, and grow with the work."""

from __future__ import annotations

import sys

from tests.support.steps import steps_of


def test_steps_grow_with_the_work_and_are_the_same_each_time() -> None:
    def work(times: int) -> None:
        for _ in range(times):
            sum(number for number in range(3))

    before = sys.gettrace()
    ten, twenty, thirty = (steps_of(lambda times=times: work(times)) for times in (10, 20, 30))  # type: ignore[misc]
    assert twenty - ten == thirty - twenty > 10
    assert steps_of(lambda: work(10)) == ten
    assert sys.gettrace() is before
