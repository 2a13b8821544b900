"""Timers by key, and duties at intervals."""

from __future__ import annotations

from typing import Any

from ottla.decisions import Decision, Repeater, Timers
from ottla.decisions.timers import RETRY_MS
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from tests.support.virtual_world import VirtualWorld


def decide(_state: object, _now_ms: int) -> Decision[None]:
    return Decision((), None)


class Owner:
    """Counts the decisions that its timers submit, and refuses a given number of them."""

    def __init__(self) -> None:
        self.virtual = VirtualWorld(immediate_workers=True)
        self.timers: Timers[Any] = Timers(self.virtual.world.scheduler)
        self.timers.submit = self.submit
        self.submitted = 0
        self.refusals = 0

    def submit(self, _decide: Any) -> Deferred[None]:
        self.submitted += 1
        if self.refusals:
            self.refusals -= 1
            return Deferred.failed(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return Deferred.resolved(None)

    def advance(self, ms: int) -> None:
        self.virtual.scheduler.advance(ms)


def test_a_timer_submits_its_decision_once_and_the_newest_of_a_key_holds() -> None:
    owner = Owner()
    owner.timers.schedule("session", 100, decide)
    owner.advance(60)
    owner.timers.schedule("session", 100, decide)
    owner.timers.schedule_if_absent("session", 10, decide)
    owner.advance(60)
    assert owner.submitted == 0
    owner.advance(40)
    assert owner.submitted == 1
    assert "session" not in owner.timers


def test_a_decision_that_is_refused_is_submitted_again() -> None:
    owner = Owner()
    owner.refusals = 2
    owner.timers.schedule("session", 100, decide)
    owner.advance(100)
    owner.advance(RETRY_MS)
    assert owner.submitted == 2
    owner.advance(RETRY_MS)
    owner.advance(RETRY_MS)
    assert owner.submitted == 3


def test_closed_timers_stay_silent() -> None:
    owner = Owner()
    owner.timers.schedule("session", 100, decide)
    owner.timers.close()
    owner.timers.schedule("session", 100, decide)
    owner.advance(1_000)
    assert owner.submitted == 0
    assert len(owner.timers) == 0


def test_a_duty_runs_at_its_interval_and_at_once_when_it_has_more_to_do() -> None:
    virtual = VirtualWorld(immediate_workers=True)
    repeater, times = Repeater(virtual.world.scheduler), []
    outcomes: list[Deferred[bool] | None] = [
        Deferred.resolved(True),
        Deferred.failed(KafkaError(ErrorCode.NOT_CONTROLLER)),
        None,
        Deferred(),
    ]

    def duty() -> Deferred[bool] | None:
        times.append(virtual.clock.ms)
        return outcomes.pop(0)

    start_ms = virtual.clock.ms
    repeater.every(lambda: 10.0, "look", duty)
    for _ in range(60):
        virtual.scheduler.advance(1_000)
    assert [ms - start_ms for ms in times] == [10_000, 10_000, 20_000, 30_000], "the last one has not ended"


def test_a_stopped_duty_runs_no_more_even_if_it_was_under_way() -> None:
    virtual = VirtualWorld(immediate_workers=True)
    repeater, runs = Repeater(virtual.world.scheduler), []
    under_way: Deferred[bool] = Deferred()

    def duty() -> Deferred[bool]:
        runs.append(1)
        return under_way

    repeater.every(lambda: 10.0, "look", duty)
    virtual.scheduler.advance(10_000)
    repeater.stop()
    under_way.resolve(True)
    virtual.scheduler.advance(60_000)
    assert len(runs) == 1
