"""Long work in slices."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from ottla.model.slices import Slices
from tests.support.virtual_world import VirtualWorld


def counted(name: str, steps: int, log: list[str]) -> Generator[None, None, str]:
    for step in range(steps):
        log.append(f"{name}{step}")
        yield
    return name


def test_others_are_served_between_two_slices() -> None:
    world, log = VirtualWorld(), list[str]()
    slices = Slices(world.scheduler)
    done = slices.run(counted("a", 3, log))
    while not done.done:
        world.scheduler.call_soon(log.append, "other")
        world.scheduler.run_turn()
    assert log == ["a0", "other", "a1", "other", "a2", "other", "other"]
    assert done.result() == "a"
    assert not slices


def test_one_slice_in_each_turn_of_all_generators() -> None:
    world, log = VirtualWorld(), list[str]()
    slices = Slices(world.scheduler)
    done = [slices.run(counted("a", 2, log)), slices.run(counted("b", 1, log))]
    for turn in range(1, 4):
        world.scheduler.run_turn()
        assert len(log) == turn
    world.scheduler.run()
    assert log == ["a0", "b0", "a1"]
    assert [deferred.result() for deferred in done] == ["a", "b"]


def test_a_failure_is_told_and_the_others_go_on() -> None:
    def failing() -> Generator[None, None, str]:
        yield
        raise ValueError("no")

    world, log = VirtualWorld(), list[str]()
    slices = Slices(world.scheduler)
    failed, done = slices.run(failing()), slices.run(counted("a", 3, log))
    world.scheduler.run()
    with pytest.raises(ValueError, match="no"):
        failed.result()
    assert done.result() == "a"
