"""The bridge between a thread and the event loop that works for it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from ottla.client.blocking import LoopThread


def test_what_an_interrupted_caller_waited_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupted(_: Future[None]) -> None:
        assert begun.wait(5)
        raise KeyboardInterrupt

    thread = LoopThread()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Future, "result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                thread.call(work())
        assert ended.wait(5)
    finally:
        thread.close()


def test_a_failure_is_the_callers() -> None:
    async def work() -> None:
        raise ValueError("no")

    thread = LoopThread()
    try:
        with pytest.raises(ValueError, match="no"):
            thread.call(work())
    finally:
        thread.close()
