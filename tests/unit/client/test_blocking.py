"""The bridge between a thread and the event loop that works for it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.client.blocking import BlockingProducer, LoopThread
from ottla.client.errors import ClientClosed
from ottla.client.settings import ClientSettings


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


def test_a_callback_that_fails_stops_no_other_record() -> None:
    def fails(*_: Any) -> None:
        raise ValueError("my own defect")

    producer = BlockingProducer(ClientSettings(bootstrap_servers=()))
    try:
        # A closed producer refuses both; the second must be told as well.
        producer._thread.call(producer._producer.close())
        first = producer.send("t", b"1", on_delivery=fails)
        assert isinstance(first.exception(10), ClientClosed)
        assert isinstance(producer.send("t", b"2").exception(10), ClientClosed)
    finally:
        producer.close()
