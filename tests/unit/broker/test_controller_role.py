"""The controller's role in a node: what happens if its metadata cannot be loaded."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.controller_role import ControllerRole
from ottla.metadata.delta import CorruptMetadataError
from tests.support.virtual_world import VirtualWorld


class Elected:
    """A role whose controller meets these errors, one after the other, before it becomes active."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.virtual = VirtualWorld()
        self.controller = SimpleNamespace(activate=self._activate, is_active=False)
        self.quorum = SimpleNamespace(is_leading=True)
        self.calls: list[Any] = []
        role: Any = object.__new__(ControllerRole)
        role._config = SimpleNamespace(node_id=1)
        role._world = self.virtual.world
        role._is_stopped = False
        role._controller, role._quorum = self.controller, self.quorum
        role._upkeep = SimpleNamespace(start=lambda: self.calls.append("upkeep"))
        role.stop = lambda: self.calls.append("stopped")
        role.on_fatal = self.calls.append
        role._on_leading()

    def _activate(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.controller.is_active = True


def test_an_elected_node_that_cannot_load_its_metadata_ends() -> None:
    """It would lead the quorum without a controller."""
    stopped, error = Elected(CorruptMetadataError("a partition of an unknown topic")).calls
    assert stopped == "stopped"
    assert isinstance(error, CorruptMetadataError)


@pytest.mark.parametrize("is_still_leading", [True, False])
def test_a_disk_that_fails_for_a_moment(is_still_leading: bool) -> None:
    elected = Elected(*[OSError(errno.EMFILE, "too many open files")] * 3)
    assert elected.calls == []
    elected.quorum.is_leading = is_still_leading
    elected.virtual.scheduler.advance(10_000)
    assert elected.calls == (["upkeep"] if is_still_leading else [])
    assert elected.controller.is_active is is_still_leading


def test_a_leader_that_becomes_active_at_once() -> None:
    assert Elected().calls == ["upkeep"]
