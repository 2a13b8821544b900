"""The commit gate: no response before its commit, in the order of the log, and every response exactly once."""

from __future__ import annotations

import random

import pytest

from ottla.decisions import CommitGate, Decision, Pending
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError

LOST = KafkaError(ErrorCode.NOT_COORDINATOR)


def append(gate: CommitGate[Pending], response: str) -> Deferred[str]:
    pending = Pending()
    answer = pending.hold(Decision(["record"], response))
    gate.append(pending)
    return answer


def test_a_response_waits_for_its_own_records() -> None:
    gate: CommitGate[Pending] = CommitGate()
    first, second = append(gate, "first"), append(gate, "second")
    assert not first.done
    gate.settle_oldest()
    assert first.result() == "first"
    assert not second.done
    gate.settle_oldest()
    assert second.result() == "second"


def test_a_response_without_records_waits_for_the_newest_records_before_it() -> None:
    gate: CommitGate[Pending] = CommitGate()
    append(gate, "first")
    append(gate, "second")
    question = gate.answer(Decision((), "from memory"))
    gate.settle_oldest()
    assert not question.done
    gate.settle_oldest()
    assert question.result() == "from memory"
    assert gate.answer(Decision((), "at once")).result() == "at once"


def test_a_failed_gate_fails_every_response_and_starts_empty() -> None:
    gate: CommitGate[Pending] = CommitGate()
    answers = [append(gate, "first"), gate.answer(Decision((), "question")), append(gate, "second")]
    gate.fail(LOST)
    assert [answer.error for answer in answers] == [LOST] * 3
    assert not gate


def test_the_action_after_a_decision_gets_the_outcome_before_the_response() -> None:
    gate: CommitGate[Pending] = CommitGate()
    seen: list[object] = []
    for _ in range(2):
        pending = Pending()
        pending.hold(Decision(["record"], "response", on_settled=seen.append)).when_done(
            lambda done: seen.append(done.error or done.result())
        )
        gate.append(pending)
    gate.settle_oldest()
    gate.fail(LOST)
    assert seen == [None, "response", LOST, LOST]
    assert gate.answer(Decision((), 1, on_settled=seen.append)).done
    assert seen[-1] is None


def test_requests_that_waited_are_answered_in_the_order_of_the_decision_its_own_among_them() -> None:
    gate: CommitGate[Pending] = CommitGate()
    answered: list[str] = []
    names = ("first", "own", "last")
    waiting: dict[str, Deferred[str]] = {name: Deferred() for name in names}
    for name in ("first", "last"):
        waiting[name].when_done(lambda done: answered.append(done.result()))
    append(gate, "records before it")
    decision = Decision((), waiting["own"], answers=[(waiting[name], name) for name in names])
    gate.answer(decision).and_then(lambda own: own).when_done(lambda done: answered.append(done.result()))
    assert answered == []
    gate.settle_oldest()
    assert answered == ["first", "own", "last"]


def test_requests_that_waited_fail_with_the_records_they_rest_on() -> None:
    gate: CommitGate[Pending] = CommitGate()
    append(gate, "records before it")
    waiting: Deferred[str] = Deferred()
    gate.answer(Decision((), None, answers=[(waiting, "never")]))
    gate.fail(LOST)
    assert waiting.error is LOST


def test_an_exception_in_one_callback_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def defect(*_: object) -> None:
        raise ValueError("a defect")

    gate: CommitGate[Pending] = CommitGate()
    append(gate, "first").when_done(defect)
    broken = gate.answer(Decision((), "second", on_settled=defect))
    last = gate.answer(Decision((), "third"))
    gate.settle_oldest()
    assert broken.result() == "second"
    assert last.result() == "third"
    assert len(caplog.records) == 2


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_responses_keep_the_order_of_decisions(seed: int) -> None:
    chance, gate = random.Random(seed), CommitGate[Pending]()
    decided, answered = 0, []
    for _ in range(300):
        step = chance.random()
        if step < 0.4:
            append(gate, str(decided)).when_done(lambda _, number=decided: answered.append(number))  # type: ignore[misc]
            decided += 1
        elif step < 0.7:
            question = gate.answer(Decision((), decided))
            question.when_done(lambda _, number=decided: answered.append(number))  # type: ignore[misc]
            decided += 1
        elif gate and step < 0.98:
            gate.settle_oldest(None if chance.random() < 0.8 else LOST)
        elif gate:
            gate.fail(LOST)
    gate.fail(LOST)
    assert answered == list(range(decided))
