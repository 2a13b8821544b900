"""When an epoch of a streaming query begins and ends. The query itself: tests/spark/test_streams_query.py."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.streams import StreamsBuilder
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.control import Control, ControlAddress, ControlServer
from ottla.streams.runtime.epochs import Epoch, EpochHold, end_of_epoch, run_epoch
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.opening import TaskOpener
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.prepare import prepare
from ottla.streams.runtime.task_table import ActiveTask
from ottla.testing import cluster
from tests.streams.live import Live, eventually


class Line(Control):
    """A control line that records the reported states."""

    def __init__(self) -> None:
        super().__init__(ControlAddress("127.0.0.1", 0, ""))
        self.states: list[str] = []

    def report(self, content: dict[str, Any]) -> None:
        self.states.append(content["state"])


def test_the_time_of_an_epoch_begins_when_the_tasks_run() -> None:
    async def run() -> list[bool]:
        epoch = Epoch(Line(), 0.0)
        was_stopped = [epoch.is_stopped]
        for state in ("rebalancing", "running", "rebalancing"):
            epoch.report({"state": state})
            was_stopped.append(epoch.is_stopped)
        return was_stopped

    assert asyncio.run(run()) == [False, False, True, True]


def test_a_worker_in_an_epoch_does_not_tell_its_end_before_it_has_left_the_group() -> None:
    async def run() -> list[str]:
        line = Line()
        epoch = Epoch(line, 10.0)
        for state in ("rebalancing", "running", "stopped"):
            epoch.report({"state": state})
        return line.states

    assert asyncio.run(run()) == ["rebalancing", "running"]


def test_a_stopped_application_ends_an_epoch_that_has_not_begun() -> None:
    async def run() -> tuple[bool, bool]:
        line = Line()
        epoch = Epoch(line, 10.0)
        line.is_stopped = True
        return epoch.is_stopped, epoch.leaves_group

    assert asyncio.run(run()) == (True, True)


async def until(condition: Callable[[], bool]) -> None:
    """Waits for the other end of a line; the limit is for a broken system only."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_no_worker_ends_its_epoch_while_another_restores() -> None:
    """Epochs of 0 s: a worker ends its epoch at once, unless it is held."""

    async def run() -> list[list[bool]]:
        reports: list[dict[str, Any]] = []

        def on_report(report: dict[str, Any]) -> None:
            hold.on_report(report)
            reports.append(report)

        server = ControlServer(on_report)
        hold = EpochHold(server)
        lines = [Control(server.address) for _ in range(3)]
        epochs = [Epoch(line, 0.0) for line in lines]
        report_count = 0
        was_stopped = []

        async def tell(worker: int, state: str) -> None:
            nonlocal report_count
            epochs[worker].report({"worker": worker, "state": state})
            report_count += 1
            await until(lambda: len(reports) == report_count)

        async def look(*, is_held: bool) -> None:
            await until(lambda: all(line.is_held is is_held for line in lines[:2]))
            was_stopped.append([epoch.is_stopped for epoch in epochs[:2]])

        for line in lines[:2]:
            await line.open()
        await tell(0, "rebalancing")
        await tell(1, "rebalancing")
        await tell(0, "running")
        await look(is_held=True)
        # A worker that connects later receives the hold as well.
        await lines[2].open()
        await until(lambda: lines[2].is_held)
        await tell(1, "running")
        await look(is_held=False)
        # A rebalance brings a task to the second worker.
        await tell(1, "rebalancing")
        await look(is_held=True)
        await tell(1, "running")
        await look(is_held=False)
        for line in lines:
            await line.close()
        server.close()
        return was_stopped

    assert asyncio.run(run()) == [[False, False], [True, True], [False, False], [True, True]]


def test_a_worker_that_ended_its_epoch_holds_the_others_no_longer() -> None:
    """The worker may end between its report of a rebalance and the hold, and reports nothing before the next epoch."""
    orders: list[str] = []

    class Server(ControlServer):
        def __init__(self) -> None:
            pass

        def hold_epoch(self) -> None:
            orders.append("hold")

        def release_epoch(self) -> None:
            orders.append("release")

    hold = EpochHold(Server())
    hold.on_report({"worker": 1, "state": "running"})
    hold.on_report(end_of_epoch(1))
    assert orders == []
    hold.on_report({"worker": 0, "state": "rebalancing"})
    hold.on_report({"worker": 1, "state": "rebalancing"})
    hold.on_report(end_of_epoch(0))
    assert orders == ["hold"]
    hold.on_report(end_of_epoch(1))
    assert orders == ["hold", "release"]


def test_the_time_of_an_epoch_begins_again_when_it_is_released() -> None:
    async def run() -> list[bool]:
        line = Line()
        epoch = Epoch(line, 10.0)
        loop = asyncio.get_running_loop()
        epoch.report({"state": "running"})
        was_stopped = []
        # This worker has run for a minute; the last worker became ready five or twenty seconds ago.
        epoch._begun = loop.time() - 60
        for seconds in (5.0, 20.0):
            line.released_at = loop.time() - seconds
            was_stopped.append(epoch.is_stopped)
        return was_stopped

    assert asyncio.run(run()) == [False, True]


class Workers:
    """Two workers of one epoch in threads, with the application's end of their lines."""

    def __init__(self, live: Live, directory: Path) -> None:
        builder = StreamsBuilder()
        builder.stream("in").to("out")
        properties = {
            "application.id": "epochs",
            "bootstrap.servers": live.bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "heartbeat.interval.ms": 100,
        }
        config = ApplicationConfig.from_properties(properties)
        prepared = asyncio.run(prepare(builder.build(), config))
        self.reports: list[dict[str, Any]] = []
        self._server = ControlServer(self._on_report)
        self._hold = EpochHold(self._server)
        identity = "00000000-0000-0000-0000-000000000000"
        self._threads = []
        for number in range(2):
            worker = WorkerIdentity(
                application_id="epochs", process_id=identity, number=number, directory=str(directory)
            )
            arguments = (prepared, config, self._server.address, worker, 0.5)
            self._threads.append(threading.Thread(target=run_epoch, args=arguments, daemon=True))
            self._threads[-1].start()

    def _on_report(self, report: dict[str, Any]) -> None:
        if "restore" not in report:
            self._hold.on_report(report)
            self.reports.append(report)

    def running_reports(self, task_id: str) -> int:
        """The number of reports of a worker that runs this task alone."""
        return sum(1 for report in self.reports if report.get("state") == "running" and report["tasks"] == [task_id])

    def end(self) -> None:
        for thread in self._threads:
            thread.join(180)
            assert not thread.is_alive(), "an epoch has not ended"
        self._server.close()


def test_a_worker_processes_records_while_another_one_restores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One task cannot be opened for a while. The worker of the other one goes on, although its time is over."""
    may_open, open_tasks = threading.Event(), TaskOpener.open

    async def open_later(self: TaskOpener, planned: Sequence[PlannedTask]) -> list[ActiveTask]:
        while any(planned_task.task_id == "0_1" for planned_task in planned) and not may_open.is_set():
            await asyncio.sleep(0.01)
        return await open_tasks(self, planned)

    monkeypatch.setattr(TaskOpener, "open", open_later)
    with cluster() as running:
        live = Live(running.bootstrap)
        live.create("in", "out", partitions=2)
        workers = Workers(live, tmp_path)
        # Reports come every half second: with the third one the epoch would be over.
        eventually(lambda: workers.running_reports("0_0") >= 4)
        live.write("in", [(str(number), "x") for number in range(20)])
        eventually(lambda: len(live.read("out")) > 0)
        may_open.set()
        workers.end()
        live.close()
