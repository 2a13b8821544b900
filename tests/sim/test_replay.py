"""One seed is one run: the same events, the same bytes, whatever else differs between two processes."""

from __future__ import annotations

import os
import subprocess
import sys

from ottla.sim.scenario import Plan, plan_of, run_plan

PLAN = Plan(
    seed=5,
    seconds=4.0,
    faults=("kill", "connection resets", "power loss", "slow links", "partition"),
    fault_pause_seconds=(0.2, 1.0),
    groups=2,
)

PROGRAM = (
    "from tests.sim.test_replay import PLAN; from ottla.sim.scenario import run_plan; print(run_plan(PLAN).digest)"
)


def test_a_seed_runs_the_same_way_twice_whatever_the_hash_seed() -> None:
    first = run_plan(PLAN)
    assert first.events > 1000
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert int(other.stdout) == first.digest


def test_another_seed_is_another_run() -> None:
    assert run_plan(Plan(seed=1, seconds=1.0)).digest != run_plan(Plan(seed=2, seconds=1.0)).digest


def test_tracing_changes_nothing() -> None:
    lines: list[str] = []
    plan = Plan(seed=3, seconds=1.0)
    assert run_plan(plan, on_trace=lines.append).digest == run_plan(plan).digest
    assert any("node ready" in line for line in lines)


def test_a_plan_can_be_fixed_in_part() -> None:
    plan = plan_of(9, nodes=4, seconds=2.5, faults=["kill"])
    assert (plan.nodes, plan.seconds, plan.faults) == (4, 2.5, ("kill",))
    assert plan.settings == plan_of(9).settings
