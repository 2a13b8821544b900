"""A process without free descriptors does not spin: it accepts later, and clients wait in the backlog."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from ottla.host import listener as listener_module
from ottla.host import metrics_endpoint
from tests.unit.host.test_listener import Served, served  # noqa: F401 - a fixture
from tests.unit.host.test_metrics_endpoint import MetricsEndpoint, Pages, get, run

NEVER_SECONDS = 3600.0


class OutOfDescriptors:
    """A listening socket that nothing can be accepted from for now."""

    def __init__(self, whole: socket.socket) -> None:
        self._whole = whole
        self.is_out = True
        self.attempts = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.attempts += 1
        if self.is_out:
            raise OSError(errno.EMFILE, "too many open files")
        return self._whole.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


async def attempts_of_many_turns(scarce: OutOfDescriptors) -> int:
    while not scarce.attempts:
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)
    return scarce.attempts


def test_a_listener(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(listener_module, "ACCEPT_RETRY_SECONDS", NEVER_SECONDS)
    listener = served.listen()
    scarce: Any = OutOfDescriptors(listener._socket)
    listener._socket = scarce
    client = served.connect(listener)
    assert served.loop.run_until_complete(attempts_of_many_turns(scarce)) == 1
    scarce.is_out = False
    listener._resume_accepting()
    assert served.echoes(client)


def test_the_metrics_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "ACCEPT_RETRY_SECONDS", NEVER_SECONDS)

    async def test(endpoint: MetricsEndpoint, _: Pages) -> None:
        scarce: Any = OutOfDescriptors(endpoint._socket)
        endpoint._socket = scarce
        pending_get = asyncio.create_task(get(endpoint, "/health/live"))
        attempts.append(await attempts_of_many_turns(scarce))
        scarce.is_out = False
        endpoint._accept_again()
        assert (await pending_get)[0] == 200

    attempts: list[int] = []
    run(test)
    assert attempts == [1]


def test_a_metrics_endpoint_that_pauses_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "ACCEPT_RETRY_SECONDS", NEVER_SECONDS)

    async def test(endpoint: MetricsEndpoint, _: Pages) -> None:
        scarce: Any = OutOfDescriptors(endpoint._socket)
        endpoint._socket = scarce
        pending_get = asyncio.create_task(get(endpoint, "/health/live"))
        await attempts_of_many_turns(scarce)
        endpoint.close()
        # What the timer would do.
        endpoint._accept_again()
        with pytest.raises((ConnectionError, IndexError)):
            await pending_get

    run(test)
