"""A value that the API has hidden stays hidden in the command of a change, whatever else the change contains."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.console.answers import ApiError
from ottla.console.routes.connectors import _put
from ottla.console.sensitive import HIDDEN

KNOWN = {"connector.class": "org.example.Bank", "pin": "1234", "topic": "orders"}


class Connect:
    """A worker with one plug-in, which defines `pin` as a password."""

    async def ask(self, _method: str, *path: str, **_options: Any) -> Any:
        if path[0] == "connectors":
            return KNOWN
        if path[1] == "org.example.Bank":
            return [{"name": "pin", "type": "PASSWORD"}]
        raise ApiError(404, "NOT_FOUND", "There is no such plug-in.")


def command_of(config: dict[str, str]) -> str:
    call: Any = SimpleNamespace(
        services=SimpleNamespace(connect=Connect()), part=lambda _name: "bank", texts=lambda _name: config
    )
    return asyncio.run(_put(call)).command


@pytest.mark.parametrize("plugin", ["org.example.Bank", "org.example.Unknown"])
def test_a_dry_run_does_not_tell_a_hidden_value(plugin: str) -> None:
    assert "1234" not in command_of({**KNOWN, "connector.class": plugin, "pin": HIDDEN})


def test_a_new_value_of_a_former_password_is_hidden() -> None:
    assert "5678" not in command_of({**KNOWN, "connector.class": "org.example.Unknown", "pin": "5678"})
    assert "topic=orders" in command_of(KNOWN)
