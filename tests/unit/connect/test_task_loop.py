"""The life of a task: retries, fatal errors, and reports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from ottla.client.errors import ConnectionLost
from ottla.connect.api import ReadLimit, RetriableError, SinkConnector, SinkWriter, Task
from ottla.connect.work import task_loop
from ottla.connect.work.engine import TaskSpec
from ottla.connect.work.jobs import LostAttemptError
from ottla.connect.work.task_loop import LOST_ATTEMPTS_MAX, TaskLoop, TaskStart
from ottla.connect.work.transactions import FencedError
from ottla.model.errors import ErrorCode, KafkaError


class Nothing(SinkConnector):
    def writer(self, task: Task) -> SinkWriter:
        raise NotImplementedError


class Events:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_running(self) -> None:
        self.heard.append("running")

    def on_paused(self) -> None:
        self.heard.append("paused")

    def on_retrying(self, trace: str) -> None:
        self.heard.append("retrying: " + trace.partition("\n")[0])

    def on_failed(self, trace: str) -> None:
        self.heard.append("failed: " + trace.strip().splitlines()[-1])

    def on_topic(self, topic: str) -> None:
        self.heard.append(topic)


class Scripted(TaskLoop):
    """Batches do what a list says, one after another, and then nothing."""

    def __init__(self, events: Events, script: list[Callable[[], bool]], **config: str) -> None:
        properties = {"trigger.interval.ms": "1", **{key.replace("_", "."): text for key, text in config.items()}}
        spec = TaskSpec(
            task=Task(connector="c", number=0, config={}),
            connector=Nothing,
            config=properties,
            transactional_id="t",
            group_id="g",
        )
        super().__init__(TaskStart(spec, events, asyncio.get_running_loop()))
        self.script = script
        self.opening: list[Exception] = []
        self.done = 0
        self.closed = False

    def open(self) -> None:
        if self.opening:
            raise self.opening.pop()

    def batch(self, limit: ReadLimit) -> bool:
        if not self.script:
            return False
        outcome = self.script.pop(0)()
        self.done += 1
        return outcome

    def close(self) -> None:
        self.closed = True

    def cancel(self) -> None:
        pass


def fails(error: Exception) -> Callable[[], bool]:
    def fail() -> bool:
        raise error

    return fail


def works() -> bool:
    return True


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def test_what_may_pass_is_tried_again_and_then_it_goes_on() -> None:
    async def run() -> None:
        events = Events()
        passing = [
            RetriableError("the database restarts"),
            ConnectionLost("no broker"),
            KafkaError(ErrorCode.NOT_COORDINATOR, "moved"),
            RuntimeError(f"in an executor: {RetriableError.__module__}.RetriableError: come back"),
        ]
        task = Scripted(events, [works, *map(fails, passing), works], errors_retry_delay_max_ms="1")
        task.start()
        await until(lambda: task.done == 2)
        assert task.progress.retries == 4
        assert "come back" in (task.progress.last_error or "")
        await task.stop(5_000)
        assert events.heard == ["running"]
        assert task.closed

    asyncio.run(run())


def test_a_task_that_cannot_start_says_why_while_it_keeps_trying() -> None:
    async def run() -> None:
        events = Events()
        task = Scripted(events, [works], errors_retry_delay_max_ms="1")
        task.opening = [RetriableError("the database\n\trefuses")]
        task.start()
        await until(lambda: task.done == 1)
        await task.stop(5_000)
        assert events.heard == ["retrying: RetriableError: the database refuses", "running", "running"]

    asyncio.run(run())


def test_a_batch_that_keeps_failing_changes_the_state_until_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_loop, "QUIET_MS", 0)

    async def run() -> None:
        events = Events()
        task = Scripted(events, [fails(ConnectionLost("no broker")), works], errors_retry_delay_max_ms="1")
        task.start()
        await until(lambda: task.done == 1)
        await task.stop(5_000)
        assert events.heard == ["running", "retrying: ConnectionLost: no broker", "running"]

    asyncio.run(run())


def test_a_paused_task_that_fails_does_not_spin() -> None:
    async def run() -> None:
        events = Events()
        task = Scripted(events, [fails(RetriableError("away"))] * 1_000)
        task.start()
        await until(lambda: task.progress.retries == 1)
        task.pause()
        await asyncio.sleep(0.1)
        # The second retry comes after 0.3 s, the third 0.6 s later.
        assert task.progress.retries < 20
        await task.stop(5_000)

    asyncio.run(run())


def test_what_does_not_pass_ends_the_task_with_its_trace() -> None:
    async def run() -> None:
        events = Events()
        task = Scripted(events, [fails(ValueError("no such column"))])
        task.start()
        await until(lambda: len(events.heard) == 2)
        assert events.heard == ["running", "failed: ValueError: no such column"]
        assert task.closed
        assert task.progress.last_error == "ValueError: no such column"

    asyncio.run(run())


def test_a_batch_that_ends_every_process_ends_the_task() -> None:
    async def run() -> None:
        events = Events()
        lost = fails(LostAttemptError("it has ended"))
        # A successful batch resets the number of attempts.
        failures = [lost] * (LOST_ATTEMPTS_MAX - 1)
        task = Scripted(
            events, [*failures, works, *failures, works, *failures, lost, works], errors_retry_delay_max_ms="1"
        )
        task.start()
        await until(lambda: len(events.heard) == 2)
        assert events.heard[1].startswith("failed: ottla.connect.work.jobs.LostAttemptError: The process that writes")
        assert (task.done, task.progress.retries) == (2, 3 * (LOST_ATTEMPTS_MAX - 1))
        assert task.closed

    asyncio.run(run())


def test_a_lost_process_is_replaced_for_the_configured_time() -> None:
    async def run() -> None:
        events = Events()
        script = [*[fails(LostAttemptError("it has ended"))] * (LOST_ATTEMPTS_MAX + 2), works]
        task = Scripted(events, script, errors_retry_timeout="-1", errors_retry_delay_max_ms="1")
        task.start()
        await until(lambda: task.done == 1)
        await task.stop(5_000)
        assert events.heard == ["running"]

    asyncio.run(run())


def test_errors_are_retried_for_the_configured_time() -> None:
    async def run() -> None:
        events = Events()
        script = [fails(ValueError("odd")), fails(ValueError("odd")), works]
        task = Scripted(events, script, errors_retry_timeout="60000", errors_retry_delay_max_ms="1")
        task.start()
        await until(lambda: task.done == 1)
        await task.stop(5_000)
        assert events.heard == ["running"]

    asyncio.run(run())


def test_a_fenced_task_never_takes_back_what_another_worker_has() -> None:
    async def run() -> None:
        events = Events()
        task = Scripted(events, [fails(FencedError("taken"))], errors_retry_timeout="-1")
        task.start()
        await until(lambda: len(events.heard) == 2)
        assert "FencedError: taken" in events.heard[1]
        assert task.progress.retries == 0

    asyncio.run(run())


def test_pausing_resuming_and_stopping() -> None:
    async def run() -> None:
        events = Events()
        task = Scripted(events, [])
        task.start()
        await until(lambda: events.heard == ["running"])
        task.pause()
        await until(lambda: events.heard == ["running", "paused"])
        task.script.append(works)
        await asyncio.sleep(0.05)
        assert task.done == 0
        task.resume()
        await until(lambda: task.done == 1)
        assert events.heard == ["running", "paused", "running"]
        task.used_topic("a")
        task.used_topic("a")
        await task.stop(5_000)
        assert events.heard[3:] == ["a"]

    asyncio.run(run())


def test_who_resumes_a_task_does_not_wait_for_a_pause_that_takes_long() -> None:
    """The event loop resumes tasks and sends heartbeats, so a query that stops slowly must not block it."""

    async def run() -> None:
        events = Events()
        begun, goes_on = threading.Event(), threading.Event()

        class Slow(Scripted):
            def on_pause(self) -> None:
                begun.set()
                assert goes_on.wait(20)

        task = Slow(events, [])
        task.start()
        await until(lambda: events.heard == ["running"])
        task.pause()
        await until(begun.is_set)
        resuming = threading.Thread(target=task.resume)
        resuming.start()
        await asyncio.to_thread(resuming.join, 5)
        waits = resuming.is_alive()
        goes_on.set()
        assert not waits
        await until(lambda: events.heard == ["running", "paused", "running"])
        await task.stop(5_000)

    asyncio.run(run())
