"""Small duties, many logs."""

from __future__ import annotations

from typing import Any

from ottla.model.deferred import Deferred
from ottla.storage.maintenance import flush_all, gather


class Flushed:
    """A log that needs no flush, or one whose flush takes a while."""

    def __init__(self, result: Deferred[None]) -> None:
        self.result = result
        self.is_asked = False

    def flush(self) -> Deferred[None]:
        self.is_asked = True
        return self.result


def test_any_number_of_logs_without_work_is_flushed() -> None:
    logs: list[Any] = [Flushed(Deferred.resolved(None)) for _ in range(20_000)]
    assert flush_all(logs).done
    assert all(log.is_asked for log in logs)


def test_a_few_flushes_run_at_a_time_and_all_are_waited_for() -> None:
    logs: list[Any] = [Flushed(Deferred()) for _ in range(30)]
    done = flush_all(logs)
    under_way = [log for log in logs if log.is_asked]
    assert 1 < len(under_way) < 30
    for number, log in enumerate(logs):
        assert log.is_asked
        assert not done.done
        if number % 2:
            log.result.resolve(None)
        else:
            log.result.fail(OSError("one failure does not stop the others"))
    assert done.done


def test_gather_waits_for_all_and_fails_with_the_first() -> None:
    first: Deferred[None] = Deferred()
    second: Deferred[None] = Deferred()
    both = gather([first, second])
    second.fail(ValueError("second"))
    assert not both.done
    first.resolve(None)
    assert isinstance(both.error, ValueError)
    assert gather([]).done
