"""Whole clusters in which every fetch is treated as a giant fetch, with the guarantees of smaller fetches."""

from __future__ import annotations

import pytest

from ottla.broker import route
from ottla.broker.apis import fetch
from ottla.replica import follower_fetch_session, giant_fetch
from ottla.sim.plans import plan_of
from ottla.sim.scenario import run_plan


@pytest.mark.parametrize("seed", [3, 4])
def test_fetches_in_slices_promise_what_others_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "SLICED_BYTES_MIN", 120)
    monkeypatch.setattr(fetch.handler, "PARTITIONS_PER_TURN_MAX", 0)
    monkeypatch.setattr(giant_fetch, "PARTITIONS_PER_SLICE", 1)
    monkeypatch.setattr(follower_fetch_session, "NEW_IN_REQUEST_MAX", 2)
    begun = 0
    start = giant_fetch.GiantFetch.start_in_slices

    def counted(*arguments: object) -> object:
        nonlocal begun
        begun += 1
        return start(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(giant_fetch.GiantFetch, "start_in_slices", counted)
    outcome = run_plan(plan_of(seed, nodes=3, seconds=10.0))
    assert not outcome.findings
    assert begun > 100
    assert outcome.counts["batch acknowledged"] > 0
