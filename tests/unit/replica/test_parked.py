"""Parked requests: woken together, answered once, and independent of each other's failures."""

from __future__ import annotations

import pytest

from ottla.replica.parked import Parked, Parking
from tests.support.virtual_world import VirtualWorld


class Waiting(Parked[str]):
    """A parked request that answers when it is retried or times out, and records these calls."""

    def __init__(self, parking: Parking, *, is_defective: bool = False) -> None:
        super().__init__(parking)
        self.trace: list[str] = []
        self.is_defective = is_defective

    def retry(self) -> None:
        self.trace.append("retry")
        if self.is_defective:
            raise ZeroDivisionError
        self.unpark("data")

    def on_timeout(self) -> None:
        self.trace.append("timeout")
        if self.is_defective:
            raise ZeroDivisionError
        self.unpark("nothing")

    def leave(self) -> None:
        self.trace.append("leave")


@pytest.fixture
def virtual() -> VirtualWorld:
    return VirtualWorld()


@pytest.fixture
def parking(virtual: VirtualWorld) -> Parking:
    return Parking(virtual.scheduler)


def test_many_wakes_of_one_turn_are_one_retry(virtual: VirtualWorld, parking: Parking) -> None:
    request = Waiting(parking)
    answer = request.park(1_000)
    for _ in range(3):
        parking.wake(request)
    assert request.trace == []
    virtual.scheduler.run()
    assert request.trace == ["retry", "leave"]
    assert answer.result() == "data"
    assert (parking.parked, parking.retries, virtual.scheduler.timers) == (0, 1, 0)


def test_time_is_up(virtual: VirtualWorld, parking: Parking) -> None:
    request = Waiting(parking)
    answer = request.park(1_000)
    virtual.scheduler.advance(999)
    assert not answer.done
    virtual.scheduler.advance(1)
    assert answer.result() == "nothing"
    assert (parking.parked, parking.timeouts) == (0, 1)


def test_a_wake_after_the_answer_does_nothing(virtual: VirtualWorld, parking: Parking) -> None:
    request = Waiting(parking)
    request.park(1_000)
    parking.wake(request)
    request.unpark("early")
    virtual.scheduler.run()
    assert request.trace == ["leave"]


@pytest.mark.parametrize("by_time", [False, True])
def test_a_defect_ends_one_request_and_no_other(virtual: VirtualWorld, parking: Parking, by_time: bool) -> None:
    broken, sound = Waiting(parking, is_defective=True), Waiting(parking)
    answers = [broken.park(1_000), sound.park(1_000)]
    if by_time:
        virtual.scheduler.advance(1_000)
    else:
        parking.wake(broken)
        parking.wake(sound)
        virtual.scheduler.run()
    assert isinstance(answers[0].error, ZeroDivisionError)
    assert answers[1].error is None
    assert answers[1].done
    assert parking.parked == 0


def test_a_defect_of_one_receiver_keeps_no_other_waiting(virtual: VirtualWorld, parking: Parking) -> None:
    def break_down(_: object) -> None:
        raise ValueError("a defect of the caller")

    requests = [Waiting(parking) for _ in range(3)]
    answers = [request.park(1_000) for request in requests]
    answers[0].when_done(break_down)
    for request in requests:
        parking.wake(request)
    with pytest.raises(ValueError, match="a defect of the caller"):
        virtual.scheduler.run()
    virtual.scheduler.run()
    assert all(answer.done for answer in answers)
