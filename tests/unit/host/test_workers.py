from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from ottla.host import workers as workers_module
from ottla.host.workers import ThreadWorkers, TooManyTasks
from ottla.model.deferred import Deferred
from ottla.model.ports import Lane
from ottla.storage.errors import is_shortage


def wait(loop: asyncio.AbstractEventLoop, *deferreds: Deferred[object]) -> None:
    left = len(deferreds)
    finished = loop.create_future()

    def on_done(_: Deferred[object]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            finished.set_result(None)

    for deferred in deferreds:
        deferred.when_done(on_done)
    loop.run_until_complete(asyncio.wait_for(finished, 60))


def test_result_and_failure_are_delivered_on_the_loops_thread(loop: asyncio.AbstractEventLoop) -> None:
    workers = ThreadWorkers(loop, threads_max=2)
    ran_on: list[int] = []
    delivered_on: list[int] = []

    def work(value: int) -> int:
        ran_on.append(threading.get_ident())
        return 10 // value

    good, bad = workers.submit(work, 5), workers.submit(work, 0)
    good.when_done(lambda _: delivered_on.append(threading.get_ident()))
    wait(loop, good, bad)
    assert good.result() == 2
    assert isinstance(bad.error, ZeroDivisionError)
    assert threading.get_ident() not in ran_on
    assert delivered_on == [threading.get_ident()]
    assert workers.outstanding == 0
    workers.close()


def test_no_more_threads_than_allowed_and_none_before_work_comes(loop: asyncio.AbstractEventLoop) -> None:
    before = threading.active_count()
    workers = ThreadWorkers(loop, threads_max=3)
    assert threading.active_count() == before
    gate = threading.Event()
    waiting = [workers.submit(gate.wait) for _ in range(20)]
    assert threading.active_count() == before + 3
    gate.set()
    wait(loop, *waiting)
    workers.close()
    assert threading.active_count() == before


def test_close_runs_what_was_submitted_and_delivers_it(loop: asyncio.AbstractEventLoop) -> None:
    workers = ThreadWorkers(loop, threads_max=1)
    results = [workers.submit(pow, 2, exponent) for exponent in range(50)]
    workers.close()
    assert [result.result() for result in results] == [2**exponent for exponent in range(50)]


def test_a_failing_callback_does_not_hold_up_the_other_results(loop: asyncio.AbstractEventLoop) -> None:
    workers = ThreadWorkers(loop, threads_max=1)
    first, second = workers.submit(int), workers.submit(int)

    def fail(_: Deferred[int]) -> None:
        raise RuntimeError("a defect")

    first.when_done(fail)
    wait(loop, second)
    assert second.result() == 0
    workers.close()


def test_results_are_delivered_round_after_round(loop: asyncio.AbstractEventLoop) -> None:
    workers = ThreadWorkers(loop, threads_max=2)
    for number in range(3):
        result = workers.submit(abs, -number)
        wait(loop, result)
        assert result.result() == number
    workers.close()


def test_an_error_does_not_keep_what_the_task_worked_on(loop: asyncio.AbstractEventLoop) -> None:
    class Buffer:
        pass

    left: list[weakref.ref[Buffer]] = []

    def unpack() -> None:
        buffer = Buffer()
        left.append(weakref.ref(buffer))
        raise ValueError("too large")

    def work() -> None:
        try:
            unpack()
        except ValueError:
            raise KeyError("refused") from None

    workers = ThreadWorkers(loop, threads_max=1)
    refused = workers.submit(work)
    wait(loop, refused)
    assert isinstance(refused.error, KeyError)
    assert [reference() for reference in left] == [None]
    workers.close()


def test_too_many_tasks_are_a_shortage_that_passes(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not taken for the failure of a disk that was to be written to."""
    monkeypatch.setattr(workers_module, "TASKS_WAITING_MAX", 1)
    workers = ThreadWorkers(loop, threads_max=1)
    first = workers.submit(int)
    refused = workers.submit(int)
    assert isinstance(refused.error, TooManyTasks)
    assert is_shortage(refused.error)
    wait(loop, first)
    workers.close()


@pytest.mark.parametrize("busy", [lane for lane in Lane if lane is not Lane.METADATA])
def test_the_metadata_log_waits_for_no_other_work(loop: asyncio.AbstractEventLoop, busy: Lane) -> None:
    """Nor does any other lane wait for the busy one, even with one thread."""
    workers = ThreadWorkers(loop, threads_max=1)
    gate = threading.Event()
    held = [workers.lane(busy).submit(gate.wait, 60) for _ in range(50)]
    others = [workers.lane(lane).submit(int) for lane in Lane if lane is not busy]
    wait(loop, *others)
    assert not any(task.done for task in held)
    gate.set()
    wait(loop, *held)
    assert workers.outstanding == 0
    workers.close()


def test_clients_records_are_decoded_on_a_quarter_of_the_threads(loop: asyncio.AbstractEventLoop) -> None:
    before = threading.active_count()
    workers = ThreadWorkers(loop, threads_max=8)
    gate = threading.Event()
    held = [workers.lane(Lane.VALIDATION).submit(gate.wait) for _ in range(50)]
    assert threading.active_count() == before + 2 == before + workers.threads
    workers.threads_max = 16
    held.append(workers.lane(Lane.VALIDATION).submit(gate.wait))
    assert threading.active_count() == before + 3
    gate.set()
    wait(loop, *held)
    workers.close()
    assert threading.active_count() == before
