"""Limits of connections, from configurations that change and from unknown names."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ottla.host.admission import Admission
from ottla.host.followed_limits import FollowedLimits
from ottla.model.config import BrokerConfig
from tests.support.virtual_world import VirtualWorkers


def config(overrides: str, **properties: str) -> BrokerConfig:
    return BrokerConfig.embedded({"max.connections.per.ip.overrides": overrides, **properties})


def overrides_of(followed: FollowedLimits) -> dict[str, int]:
    return dict(followed.limits.connections_per_address_overrides)


def test_a_name_that_cannot_be_one_does_not_stop_the_node() -> None:
    workers = VirtualWorkers(immediate=True)
    followed = FollowedLimits(config("127.0.0.1:7"), workers)
    assert overrides_of(followed) == {"127.0.0.1": 7}
    impossible = f"a..b:5,{'c' * 64}.d:6,0:0:0:0:0:0:0:1:8"
    followed.follow(config(impossible))
    assert overrides_of(followed) == {"a..b": 5, f"{'c' * 64}.d": 6, "::1": 8}
    assert overrides_of(FollowedLimits(config(impossible), workers))["::1"] == 8


def test_names_are_asked_for_on_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = VirtualWorkers()
    looked_up: list[str] = []

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    followed = FollowedLimits(config("one.example:3"), workers)
    admission = Admission(followed.limits)
    followed.tell(admission)
    followed.follow(config("two.example:4", **{"max.connections": "5"}))
    assert looked_up == []
    # Limits without host names apply at once.
    assert followed.limits.connections_max == 5
    workers.run_all()
    # The answer about a former configuration came too late to count.
    assert overrides_of(followed) == {"10.0.0.1": 4}
    assert admission.limits is followed.limits
    assert followed.limits.connections_max == 5
