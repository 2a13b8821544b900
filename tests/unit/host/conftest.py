"""A loop and a world for tests of sockets and threads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from ottla.host.clock import SystemClock
from ottla.host.files import OsFiles
from ottla.host.loop import new_event_loop
from ottla.host.workers import ThreadWorkers
from ottla.model.ports import World


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = new_event_loop()
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture
def world(loop: asyncio.AbstractEventLoop) -> Iterator[World]:
    workers = ThreadWorkers(loop, threads_max=2)
    yield World(clock=SystemClock(), scheduler=loop, workers=workers, files=OsFiles(), random=random.Random(1))
    workers.close()
