"""Clients without rights in the simulator: every answer to them is a refusal, and honest clients are served."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.access.standard import StandardAuthorizer
from ottla.model.access import Operation
from ottla.sim.plans import Plan, plan_of
from ottla.sim.scenario import run_plan

PLAN = Plan(seed=3, seconds=8.0, producers=1, intruders=2, faults=("kill", "partition"))


def test_intruders_are_refused_whatever_is_killed() -> None:
    outcome = run_plan(PLAN)
    assert [str(finding) for finding in outcome.findings] == []
    assert outcome.counts["refused intruder"] > 10


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DESCRIBE])
def test_an_authorizer_that_forgets_an_operation_is_found(
    monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    decide = StandardAuthorizer.authorize

    def authorize(authorizer: StandardAuthorizer, context: Any, asked: Operation, *resource: Any) -> bool:
        return asked is operation or decide(authorizer, context, asked, *resource)

    monkeypatch.setattr(StandardAuthorizer, "authorize", authorize)
    outcome = run_plan(PLAN, ends_at_finding=True)
    assert "nothing without rights" in {finding.rule for finding in outcome.findings}


def test_some_seeds_have_intruders() -> None:
    assert 10 < sum(plan_of(seed).intruders for seed in range(100)) < 35
