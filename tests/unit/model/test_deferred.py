from __future__ import annotations

import pytest

from ottla.model.deferred import Deferred, gather


def test_callbacks_run_in_order_when_the_value_comes() -> None:
    deferred: Deferred[int] = Deferred()
    seen: list[str] = []
    deferred.when_done(lambda done: seen.append(f"first {done.result()}"))
    deferred.when_done(lambda done: seen.append(f"second {done.result()}"))
    assert not deferred.done
    deferred.resolve(3)
    assert deferred.done
    assert seen == ["first 3", "second 3"]


def test_a_callback_on_a_finished_one_runs_at_once() -> None:
    seen: list[int] = []
    Deferred.resolved(4).when_done(lambda done: seen.append(done.result()))
    assert seen == [4]


def test_a_failure_is_raised_where_the_result_is_asked_for() -> None:
    deferred: Deferred[int] = Deferred.failed(OSError("disk"))
    assert isinstance(deferred.error, OSError)
    with pytest.raises(OSError, match="disk"):
        deferred.result()


def test_none_is_a_value() -> None:
    deferred: Deferred[None] = Deferred()
    deferred.resolve(None)
    assert deferred.done
    assert deferred.result() is None


def test_misuse_is_a_programmers_error() -> None:
    deferred: Deferred[int] = Deferred()
    with pytest.raises(AssertionError):
        deferred.result()
    deferred.resolve(1)
    with pytest.raises(AssertionError):
        deferred.resolve(2)
    with pytest.raises(AssertionError):
        deferred.fail(OSError())


def test_then_makes_something_of_the_value() -> None:
    deferred: Deferred[int] = Deferred()
    text = deferred.then(str)
    deferred.resolve(5)
    assert text.result() == "5"


def test_then_passes_failures_on() -> None:
    failed: Deferred[int] = Deferred.failed(OSError("disk"))
    with pytest.raises(OSError, match="disk"):
        failed.then(str).result()
    with pytest.raises(ZeroDivisionError):
        Deferred.resolved(0).then(lambda value: 1 // value).result()


def test_and_then_continues_with_another_deferred() -> None:
    first, second = Deferred[int](), Deferred[str]()
    asked_values: list[int] = []

    def ask(value: int) -> Deferred[str]:
        asked_values.append(value)
        return second

    chained = first.and_then(ask)
    assert asked_values == []
    first.resolve(7)
    assert asked_values == [7]
    assert not chained.done
    second.resolve("seven")
    assert chained.result() == "seven"


def test_and_then_passes_failures_of_both_on() -> None:
    failed: Deferred[int] = Deferred.failed(OSError("first"))
    assert str(failed.and_then(Deferred.resolved).error) == "first"
    second: Deferred[int] = Deferred.failed(OSError("second"))
    assert str(Deferred.resolved(1).and_then(lambda _: second).error) == "second"
    raised = Deferred.resolved(0).and_then(lambda value: Deferred.resolved(1 // value))
    assert isinstance(raised.error, ZeroDivisionError)


def test_recover_maps_errors_of_its_kind_only() -> None:
    failed: Deferred[str] = Deferred.failed(OSError("disk"))
    assert failed.recover(OSError, lambda error: f"without {error}").result() == "without disk"
    assert isinstance(failed.recover(KeyError, str).error, OSError)
    assert Deferred.resolved("value").recover(OSError, str).result() == "value"

    def fail_again(error: OSError) -> str:
        raise ValueError(str(error))

    assert isinstance(failed.recover(OSError, fail_again).error, ValueError)


def test_an_error_that_is_no_exception_passes_through_every_combinator() -> None:
    failed: Deferred[int] = Deferred.failed(SystemExit(3))
    assert isinstance(failed.then(str).error, SystemExit)
    assert isinstance(failed.and_then(Deferred.resolved).error, SystemExit)
    assert isinstance(failed.recover(OSError, lambda _: 1).error, SystemExit)
    assert isinstance(failed.finally_do(lambda: None).error, SystemExit)


def test_finally_do_runs_before_the_outcome_passes_on() -> None:
    deferred: Deferred[int] = Deferred()
    seen: list[str] = []
    released = deferred.finally_do(lambda: seen.append("released"))
    released.when_done(lambda done: seen.append(str(done.result())))
    deferred.resolve(1)
    assert seen == ["released", "1"]
    failed: Deferred[int] = Deferred.failed(OSError("disk"))
    assert isinstance(failed.finally_do(lambda: seen.append("again")).error, OSError)
    assert seen[-1] == "again"


def test_pass_to_completes_the_target_with_either_outcome() -> None:
    source, target = Deferred[int](), Deferred[int]()
    source.pass_to(target)
    source.resolve(2)
    assert target.result() == 2
    target = Deferred()
    Deferred[int].failed(OSError("disk")).pass_to(target)
    assert isinstance(target.error, OSError)


def test_what_is_gathered_comes_in_order_when_all_is_there() -> None:
    first, second = Deferred[int](), Deferred[int]()
    gathered = gather([first, second])
    second.resolve(2)
    assert not gathered.done
    first.resolve(1)
    assert gathered.result() == [1, 2]
    nothing: list[Deferred[int]] = []
    assert gather(nothing).result() == []


def test_gathering_fails_with_the_first_failure_when_all_is_done() -> None:
    first, second, third = Deferred[int](), Deferred[int](), Deferred[int]()
    gathered = gather([first, second, third])
    third.fail(ValueError("third"))
    second.fail(ValueError("second"))
    assert not gathered.done
    first.resolve(1)
    assert str(gathered.error) == "second"
