"""Connections that wait for the memory of large requests: clients that hold it are checked while others wait."""

from __future__ import annotations

from typing import Any

from ottla.host.connection import SharedReadState
from ottla.wire.connection.request_memory import CHECK_SECONDS, RequestMemory


class Scheduler:
    def __init__(self) -> None:
        self.planned: list[tuple[float, Any]] = []

    def call_later(self, delay: float, callback: Any, *arguments: Any) -> Any:
        assert not arguments
        self.planned.append((delay, callback))

    def run(self) -> None:
        planned, self.planned = self.planned, []
        for _, callback in planned:
            callback()


class Holder:
    def __init__(self, size: int) -> None:
        self.counted_bytes = 0
        self.request_bytes = size
        self.received_bytes = 0
        self.reason: str | None = None
        self.memory: RequestMemory | None = None

    def memory_available(self) -> None:
        assert self.memory is not None
        assert self.memory.take(self, self.request_bytes)

    def give_up(self, reason: str) -> None:
        assert self.memory is not None
        self.reason = reason
        self.memory.release(self)


def test_checks_are_planned_while_requests_wait() -> None:
    scheduler = Scheduler()
    memory = RequestMemory(request_bytes_max=100, limit_bytes=100)
    SharedReadState(scheduler, memory)  # type: ignore[arg-type]
    first, second = Holder(100), Holder(100)
    first.memory = second.memory = memory
    assert memory.take(first, 100)
    assert not scheduler.planned
    assert not memory.take(second, 100)
    memory.wait(second)
    memory.wait(second)
    assert [delay for delay, _ in scheduler.planned] == [CHECK_SECONDS]
    scheduler.run()
    assert first.reason is None
    assert len(scheduler.planned) == 1
    scheduler.run()
    assert first.reason is not None
    assert second.counted_bytes == 100
    scheduler.run()
    assert not scheduler.planned
