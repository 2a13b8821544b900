"""When an epoch of a streaming query begins and ends. The query itself: tests/spark/test_streams_query.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.streams.runtime.control import Control, ControlAddress, ControlServer
from ottla.streams.runtime.epochs import Epoch, EpochHold


class Line(Control):
    """A line to an application that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(ControlAddress("127.0.0.1", 0, ""))
        self.told: list[str] = []

    def report(self, content: dict[str, Any]) -> None:
        self.told.append(content["state"])


def test_the_time_of_an_epoch_begins_when_the_tasks_run() -> None:
    async def run() -> list[bool]:
        epoch = Epoch(Line(), 0.0)
        found = [epoch.is_stopped]
        for state in ("rebalancing", "running", "rebalancing"):
            epoch.report({"state": state})
            found.append(epoch.is_stopped)
        return found

    assert asyncio.run(run()) == [False, False, True, True]


def test_a_worker_in_an_epoch_does_not_tell_its_end_before_it_has_left_the_group() -> None:
    async def run() -> list[str]:
        line = Line()
        epoch = Epoch(line, 10.0)
        for state in ("rebalancing", "running", "stopped"):
            epoch.report({"state": state})
        return line.told

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
        told = 0
        found = []

        async def tell(worker: int, state: str) -> None:
            nonlocal told
            epochs[worker].report({"worker": worker, "state": state})
            told += 1
            await until(lambda: len(reports) == told)

        async def look(*, is_held: bool) -> None:
            await until(lambda: all(line.is_held is is_held for line in lines[:2]))
            found.append([epoch.is_stopped for epoch in epochs[:2]])

        for line in lines[:2]:
            await line.open()
        await tell(0, "rebalancing")
        await tell(1, "rebalancing")
        await tell(0, "running")
        await look(is_held=True)
        # A worker that connects later hears of the hold as well.
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
        return found

    assert asyncio.run(run()) == [[False, False], [True, True], [False, False], [True, True]]


def test_the_time_of_an_epoch_begins_again_when_it_is_released() -> None:
    async def run() -> list[bool]:
        line = Line()
        epoch = Epoch(line, 10.0)
        loop = asyncio.get_running_loop()
        epoch.report({"state": "running"})
        found = []
        # The last worker was ready five seconds, and twenty seconds, ago; this one runs for a minute.
        epoch._begun = loop.time() - 60
        for seconds in (5.0, 20.0):
            line.released_at = loop.time() - seconds
            found.append(epoch.is_stopped)
        return found

    assert asyncio.run(run()) == [False, True]
