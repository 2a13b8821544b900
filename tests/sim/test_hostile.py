"""Hostile clients in the simulator: they wait for memory, are refused, and disturb no other client."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.sim.plans import Plan, plan_of
from ottla.sim.scenario import run_plan
from ottla.wire.connection.request_memory import RequestMemory


def test_hostile_clients_disturb_no_honest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    for name in ("wait", "hold", "release"):
        original = getattr(RequestMemory, name)

        def counted(memory: RequestMemory, holder: object, name: str = name, original: object = original) -> None:
            calls[name] += 1
            original(memory, holder)  # type: ignore[operator]

        monkeypatch.setattr(RequestMemory, name, counted)
    outcome = run_plan(
        Plan(seed=1, nodes=1, replication_factor=1, min_insync_replicas=1, seconds=15.0, producers=1, hostiles=3)
    )
    assert [str(finding) for finding in outcome.findings] == []
    assert outcome.counts["hostile connection"] > 30
    assert calls["wait"]
    assert calls["hold"]


def test_some_seeds_have_hostile_clients() -> None:
    hostiles = [plan_of(seed).hostiles for seed in range(100)]
    assert 10 < sum(hostiles) < 35
