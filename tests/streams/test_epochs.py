"""When an epoch of a streaming query begins and ends. The query itself: tests/spark/test_streams_query.py."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.streams.runtime.control import Control, ControlAddress
from ottla.streams.runtime.epochs import Epoch


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
