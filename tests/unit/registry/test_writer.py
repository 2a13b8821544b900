"""A write whose process loses the role of the writer before or during it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import noop_record
from ottla.registry.node.election import Identity
from ottla.registry.node.service import Elsewhere, RegistryService, ServiceSettings


class ClosedProducer:
    """A producer that is closed when its transaction begins."""

    def __init__(self, service: RegistryService) -> None:
        self._service = service
        self._is_closed = False

    def begin_transaction(self) -> None:
        pass

    async def send(self, *_: object) -> asyncio.Future[Any]:
        await self._service._on_elected(False, None)
        delivery: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        delivery.set_result(SimpleNamespace(offset=0))
        return delivery

    async def commit_transaction(self) -> None:
        if self._is_closed:
            raise ClientError("The producer is closed.")

    async def close(self) -> None:
        self._is_closed = True


def service() -> RegistryService:
    return RegistryService(ClientSettings(bootstrap_servers=(("localhost", 1),)), ServiceSettings())


def test_a_write_that_waited_too_long_does_not_fence_the_next_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        registry = service()
        registry._is_writer = True
        monkeypatch.setattr(registry._topic, "start_writing", start_writing)
        async with registry._topic._lock:
            waiting = asyncio.ensure_future(registry.write(lambda: ([noop_record()], None)))
            await asyncio.sleep(0)
            await registry._on_elected(False, Identity("other", 8081))
        await waiting

    async def start_writing() -> None:
        raise AssertionError("The next writer is fenced.")

    with pytest.raises(Elsewhere) as caught:
        asyncio.run(run())
    assert caught.value.url == "http://other:8081"


def test_a_write_that_comes_while_the_role_is_given_up_does_not_fence_the_next_writer() -> None:
    async def run() -> None:
        registry = service()
        registry._is_writer = True
        is_closing, may_close = asyncio.Event(), asyncio.Event()

        async def close() -> None:
            is_closing.set()
            await may_close.wait()

        registry._topic._producer = SimpleNamespace(close=close)  # type: ignore[assignment]
        giving_up = asyncio.ensure_future(registry._on_elected(False, Identity("other", 8081)))
        await is_closing.wait()
        with pytest.raises(Elsewhere):
            await registry.write(lambda: ([noop_record()], None))
        may_close.set()
        await giving_up

    asyncio.run(run())


def test_a_role_that_is_lost_during_a_write_is_told() -> None:
    async def run() -> None:
        registry = service()
        registry._is_writer = True
        registry._topic._producer = ClosedProducer(registry)  # type: ignore[assignment]
        await registry.write(lambda: ([noop_record()], None))

    with pytest.raises(RegistryError, match="The producer is closed") as caught:
        asyncio.run(run())
    assert caught.value.code == 50001
