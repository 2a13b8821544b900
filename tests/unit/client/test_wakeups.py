"""Wakeups interrupt every call of a consumer that waits, not only polls."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ottla.client.consumer.wakeups import Wakeups
from ottla.client.errors import WokenUp


def test_a_wakeup_from_another_thread_ends_a_call_that_waits() -> None:
    ended: list[bool] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def scenario() -> None:
        wakeups = Wakeups(lambda: None)
        waking = threading.Timer(0.05, wakeups.wakeup)
        waking.start()
        with pytest.raises(WokenUp):
            await wakeups.interruptible(endless())
        await asyncio.sleep(0)
        assert ended == [True]
        # A wakeup counts once.
        assert await wakeups.interruptible(asyncio.sleep(0, "done")) == "done"

    asyncio.run(scenario())


def test_a_wakeup_before_a_call_is_not_lost() -> None:
    async def scenario() -> None:
        wakeups = Wakeups(lambda: None)
        wakeups.wakeup()
        with pytest.raises(WokenUp):
            await wakeups.interruptible(asyncio.sleep(0))
        wakeups.check()

    asyncio.run(scenario())


def test_a_wakeup_that_was_told_leaves_the_next_call_interruptible() -> None:
    async def scenario() -> None:
        wakeups = Wakeups(lambda: None)
        wakeups.check()
        # The check is before the callback that the wakeup has given to the loop.
        wakeups.wakeup()
        with pytest.raises(WokenUp):
            wakeups.check()
        begun = asyncio.Event()

        async def endless() -> None:
            begun.set()
            await asyncio.Event().wait()

        async def wake_again() -> None:
            await begun.wait()
            for _ in range(5):
                await asyncio.sleep(0)
            wakeups.wakeup()

        again = asyncio.ensure_future(wake_again())
        async with asyncio.timeout(5):
            with pytest.raises(WokenUp):
                await wakeups.interruptible(endless())
        await again

    asyncio.run(scenario())
