"""The bound on work for unauthenticated clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.host.stranger_turns import SECONDS_PER_TURN, StrangerTurns

LONG = SECONDS_PER_TURN * 2
SHORT = SECONDS_PER_TURN / 4


class Loop:
    """Turns that the test runs one by one, and a clock that only steps move."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._planned: list[Callable[[], object]] = []
        self.done: list[str] = []
        self.turns = StrangerTurns(self, now=lambda: self.seconds)  # type: ignore[arg-type]

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._planned.append(callback)

    @property
    def is_idle(self) -> bool:
        return not self._planned

    def turn(self) -> list[str]:
        """The steps of one turn."""
        self.done.clear()
        planned, self._planned = self._planned, []
        for callback in planned:
            callback()
        return list(self.done)

    def step(self, name: str, seconds: float) -> bool:
        def work() -> None:
            self.seconds += seconds
            self.done.append(name)

        return self.turns.run(work)


def test_a_turn_has_time_for_one_long_step_or_some_short_ones() -> None:
    loop = Loop()
    assert loop.step("a", LONG)
    assert not loop.step("b", SHORT)
    assert not loop.step("c", LONG)
    assert not loop.step("d", LONG)
    assert loop.turns.waiting == 3
    assert loop.turn() == ["b", "c"]
    assert loop.turn() == ["d"]
    assert loop.turns.waiting == 0


def test_a_step_does_not_overtake_those_that_wait() -> None:
    loop = Loop()
    assert loop.step("a", LONG)
    assert not loop.step("b", LONG)
    assert not loop.step("c", LONG)
    assert loop.turn() == ["b"]
    # Time is left for no further step, and then the queue is not empty.
    assert not loop.step("d", SHORT)
    assert loop.turn() == ["c"]
    assert loop.turn() == ["d"]


def test_nothing_is_planned_without_work() -> None:
    loop = Loop()
    assert loop.is_idle
    assert loop.step("a", SHORT)
    assert loop.step("b", SHORT)
    assert loop.turn() == []
    assert loop.is_idle
    assert loop.step("c", LONG)
    loop.turn()
    assert loop.is_idle


def test_a_step_that_raises_does_not_end_the_turns() -> None:
    loop = Loop()

    def fail() -> None:
        raise RuntimeError

    loop.step("a", LONG)
    loop.turns.run(fail)
    loop.step("b", LONG)
    with pytest.raises(RuntimeError):
        loop.turn()
    assert loop.turn() == ["b"]
