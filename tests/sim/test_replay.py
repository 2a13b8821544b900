"""One seed is one run: the same events, the same bytes, whatever else differs between two processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.sim.plans import Plan, plan_from_json, plan_of, plan_to_json, step_plans
from ottla.sim.scenario import run_plan
from tests.sim.commands import run_simulator


def test_a_seed_runs_the_same_way_twice() -> None:
    arguments = (
        "--seed",
        "5",
        "--nodes",
        "3",
        "--seconds",
        "5",
        "--faults",
        "kill,connection resets,power loss,slow links",
    )
    digests = [re.findall(r"digest ([0-9a-f]{16})", run_simulator(*arguments)) for _ in range(2)]
    assert len(digests[0]) == 1
    assert digests[0] == digests[1]


def test_clients_on_the_simulated_event_loop_run_the_same_way_twice(tmp_path: Path) -> None:
    plan = Plan(seed=6, seconds=2.0, producers=0, readers=0, groups=0, applications=6, faults=("connection resets",))
    path = tmp_path / "plan.json"
    path.write_text(plan_to_json(plan))
    outputs = [run_simulator("--plan", str(path)) for _ in range(2)]
    digests = [re.findall(r"digest ([0-9a-f]{16})", output) for output in outputs]
    assert len(digests[0]) == 1
    assert digests[0] == digests[1]
    for seen in ("record acknowledged", "record consumed", "transaction committed", "record copied", "assignment"):
        assert f"client: {seen}" in outputs[0], outputs[0]


def test_another_seed_is_another_run() -> None:
    assert run_plan(Plan(seed=1, seconds=1.0)).digest != run_plan(Plan(seed=2, seconds=1.0)).digest


def test_tracing_changes_nothing_and_neither_does_the_place_of_objects_in_memory() -> None:
    lines: list[str] = []
    plan = Plan(seed=3, seconds=2.0, controllers=3, transactions=1, faults=("kill", "connection resets"))
    traced = run_plan(plan, on_trace=lines.append)
    assert traced.digest == run_plan(plan).digest
    assert traced.events > 1000
    assert any("node ready" in line for line in lines)


def test_a_plan_can_be_fixed_in_part() -> None:
    plan = plan_of(9, nodes=4, seconds=2.5, faults=["kill"])
    assert (plan.nodes, plan.seconds, plan.faults) == (4, 2.5, ("kill",))
    assert plan.settings == plan_of(9).settings


def test_a_plan_is_the_same_when_it_was_written_down() -> None:
    for plan in (*map(plan_of, range(50)), *step_plans(every=5)):
        assert plan_from_json(plan_to_json(plan)) == plan


def test_a_plan_names_only_what_there_is() -> None:
    with pytest.raises(ValueError, match="earthquake"):
        plan_from_json('{"seed": 1, "faults": ["earthquake"]}')
    with pytest.raises(TypeError):
        plan_from_json('{"seed": 1, "weather": "fine"}')
