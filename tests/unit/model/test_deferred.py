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
