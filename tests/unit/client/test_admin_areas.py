"""The administrator's areas: documented calls exist, and calls have the time-out of their block."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest

from ottla.client.admin import AdminClient
from ottla.client.blocking import BlockingAdmin
from ottla.client.errors import ClientError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "client.md"


def test_every_documented_call_exists() -> None:
    section = PAGE.read_text().split("## Administration\n")[1].split("\n## ")[0]
    calls = {
        (area, name)
        for line in section.splitlines()
        if line.startswith("| `")
        for area, name in re.findall(r"`([a-z_]+)\.([a-z_]+)`", line.split("|")[2])
    }
    assert len(calls) > 50

    async def scenario() -> None:
        async with AdminClient({"bootstrap.servers": "localhost:1"}) as admin:
            for area, name in calls:
                assert asyncio.iscoroutinefunction(getattr(getattr(admin, area), name)), (area, name)

    asyncio.run(scenario())


def test_a_block_of_calls_has_a_time_out_of_its_own() -> None:
    served: list[asyncio.Task[object] | None] = []

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        with contextlib.closing(writer):
            await reader.read()

    async def scenario() -> None:
        silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        async with AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}) as admin:
            with admin.within(100):
                assert admin.connections.deadline() - loop.time() < 1
                with pytest.raises(ClientError):
                    await admin.topics.names()
            assert admin.connections.deadline() - loop.time() > 30
        silent.close()
        # A connection that stays open is found by the garbage collector, in the middle of another test.
        await asyncio.gather(*(task for task in served if task is not None), return_exceptions=True)

    asyncio.run(scenario())


def test_the_time_out_reaches_the_loop_of_a_blocking_admin() -> None:
    async def left(admin: AdminClient) -> float:
        return admin.connections.deadline() - asyncio.get_running_loop().time()

    admin = BlockingAdmin({"bootstrap.servers": "localhost:1"})
    try:
        with admin.within(100):
            assert admin.call(left) < 1
        assert admin.call(left) > 30
    finally:
        admin.close()
