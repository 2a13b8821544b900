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
from ottla.client.single_user import SingleUser


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
        # A closed producer refuses both records; the second delivery must fail as well.
        producer._thread.call(producer._producer.close())
        first = producer.send("t", b"1", on_delivery=fails)
        assert isinstance(first.exception(10), ClientClosed)
        assert isinstance(producer.send("t", b"2").exception(10), ClientClosed)
    finally:
        producer.close()


class Slow(SingleUser):
    """Calls that end when they are cancelled, in their own time."""

    def __init__(self) -> None:
        super().__init__()
        self.story: list[str] = []

    async def work(self, begun: threading.Event) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.story.append("ended")

    async def next(self) -> None:
        self.story.append("next")

    def call(self, work: Any) -> None:
        self._call(work)

    def interrupt(self, begun: threading.Event) -> None:
        def errand() -> None:
            assert begun.wait(5)
            raise KeyboardInterrupt

        self._errands.put(errand)

    async def _close(self) -> None:
        return


def test_the_call_after_an_interrupted_one_begins_when_that_has_ended() -> None:
    client, begun = Slow(), threading.Event()
    try:
        client.interrupt(begun)
        with pytest.raises(KeyboardInterrupt):
            client.call(client.work(begun))
        client.call(client.next())
        assert client.story == ["ended", "next"]
    finally:
        client.close()


def test_a_callback_that_fails_costs_no_result() -> None:
    class User(SingleUser):
        async def _close(self) -> None:
            return

    async def poll() -> list[int]:
        user._later(fail)()
        return [1]

    async def commit() -> None:
        return

    def fail() -> None:
        raise ValueError("the callback")

    user = User()
    try:
        assert user._call(poll()) == [1]
        with pytest.raises(ValueError, match="the callback"):
            user._call(commit())
        user._call(commit())
        assert user._call(poll()) == [1]
        # A client is closed before the error of its last callback is raised.
        user._is_closing = True
        with pytest.raises(ValueError, match="the callback"):
            user._call(commit())
    finally:
        user._thread.close()
