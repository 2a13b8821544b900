"""Runs that must end well: seeds that have found something once, and a few that nobody has looked at.

`make sim SEEDS=1000` runs many more.
"""

from __future__ import annotations

import pytest

from ottla.sim.scenario import plan_of, run_plan

# What each of them found when it was first run. A change of the simulator may turn it into another run.
FOUND_ONCE = {
    11: "a join that had failed with its write was answered a second time",
    30: "an fsync that failed at the very end kept a node from stopping",
    46: "a shard that was given up planned a timer",
    73: "a DeleteTopics request that failed had an empty answer",
    91: "a power loss took the first segment of the metadata log, because its name was never synced",
}


@pytest.mark.parametrize("seed", FOUND_ONCE)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    outcome = run_plan(plan_of(seed))
    assert outcome.is_good, f"python -m ottla.sim --seed {seed}: {outcome.findings[0]}"


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_nothing_is_found(seed: int) -> None:
    outcome = run_plan(plan_of(seed, seconds=10.0))
    assert outcome.is_good, f"python -m ottla.sim --seed {seed} --seconds 10.0: {outcome.findings[0]}"
    assert outcome.counts["batch acknowledged"] > 0
