"""The system refuses new threads for a while, at a limit of processes or of memory."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.host.workers import ThreadWorkers, TooManyTasks
from tests.unit.host.test_workers import wait


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of threads that may start."""
    allowed = [0]
    start = threading.Thread.start

    def start_if_allowed(thread: threading.Thread) -> None:
        if not allowed[0]:
            raise RuntimeError("can't start new thread")
        allowed[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_allowed)
    return allowed


def test_a_task_without_a_thread_fails_and_later_tasks_run(loop: asyncio.AbstractEventLoop, limit: list[int]) -> None:
    workers = ThreadWorkers(loop, threads_max=1)
    ran: list[int] = []
    refused = workers.submit(ran.append, 1)
    assert isinstance(refused.error, TooManyTasks)
    assert workers.outstanding == 0
    limit[0] = 1
    wait(loop, workers.submit(ran.append, 2))
    assert ran == [2]
    workers.close()


def test_a_task_waits_for_the_threads_that_exist(loop: asyncio.AbstractEventLoop, limit: list[int]) -> None:
    workers = ThreadWorkers(loop, threads_max=3)
    limit[0] = 1
    opened = threading.Event()
    tasks = [workers.submit(opened.wait, 60) for _ in range(5)]
    assert workers.threads == 1
    opened.set()
    wait(loop, *tasks)
    assert [task.result() for task in tasks] == [True] * 5
    workers.close()
