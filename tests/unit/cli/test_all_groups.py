"""`ottla groups --all-groups` is about consumer groups, as kafka-consumer-groups is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Self

import pytest

from ottla.cli import session
from ottla.cli.app import run
from ottla.client.admin.groups import ListedGroup


class FakeAdmin:
    """A cluster with groups of every kind."""

    def __init__(self, _: object) -> None:
        self.groups = self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def find(self) -> list[ListedGroup]:
        return [
            ListedGroup("classic", "consumer", "Empty", "classic"),
            ListedGroup("committed", "", "Empty", "classic"),
            ListedGroup("new", "consumer", "Empty", "consumer"),
            ListedGroup("shared", "share", "Empty", "share"),
            ListedGroup("streams", "streams", "Empty", "streams"),
            ListedGroup("workers", "connect", "Empty", "classic"),
        ]

    async def delete(self, group_ids: Sequence[str]) -> dict[str, None]:
        return dict.fromkeys(group_ids)


def test_all_groups_are_consumer_groups(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(session, "AdminClient", FakeAdmin)
    assert run(["groups", "delete", "--all-groups", "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["classic", "committed", "new"]
