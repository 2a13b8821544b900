"""Checks of passwords: a client with wrong passwords does not keep clients of other addresses waiting."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from ottla.registry.core.errors import RegistryError
from ottla.registry.node import passwords
from ottla.registry.node.guard import Guard
from ottla.registry.node.passwords import Passwords, hashed_password

# The guard stores request state under plain names, which aiohttp allows but does not recommend.
pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")


class Transport:
    """The connection of a client with this address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._address, 4711) if name == "peername" else default


def request(address: str, password: str) -> Any:
    credentials = base64.b64encode(f"alice:{password}".encode()).decode()
    transport: Any = Transport(address)
    return make_mocked_request("GET", "/", headers={"Authorization": f"Basic {credentials}"}, transport=transport)


def test_a_client_cannot_fill_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    matches = passwords._matches

    def counted(password: str, expected: str) -> bool:
        checks.append(password)
        return matches(password, expected)

    monkeypatch.setattr(passwords, "_ITERATIONS", 1)
    monkeypatch.setattr(passwords, "_matches", counted)

    async def scenario() -> None:
        guard = Guard(passwords=Passwords({"alice": hashed_password("right")}))
        guesses = [asyncio.ensure_future(guard.admit(request("10.0.0.1", f"wrong{number}"))) for number in range(100)]
        await asyncio.sleep(0)
        await guard.admit(request("10.0.0.2", "right"))
        assert len(checks) <= 25
        outcomes = await asyncio.gather(*guesses, return_exceptions=True)
        codes = [outcome.code for outcome in outcomes if isinstance(outcome, RegistryError)]
        assert (len(codes), set(codes)) == (100, {401, 429})
        # The place in the queue is free again.
        with pytest.raises(RegistryError, match="Unauthorized"):
            await guard.admit(request("10.0.0.1", "wrong"))

    asyncio.run(scenario())


def test_clients_of_one_address_that_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []

    def counted(password: str, _expected: str) -> bool:
        checks.append(password)
        return password == "right"

    monkeypatch.setattr(passwords, "_ITERATIONS", 1)
    monkeypatch.setattr(passwords, "_matches", counted)

    async def scenario() -> None:
        guard = Guard(passwords=Passwords({"alice": hashed_password("right")}))
        starting = [asyncio.ensure_future(guard.admit(request("10.0.0.1", "right"))) for _ in range(100)]
        await asyncio.sleep(0)
        # A client that gives up does not take the others with it.
        starting.pop(0).cancel()
        await asyncio.gather(*starting)
        assert checks == ["right"]

    asyncio.run(scenario())
