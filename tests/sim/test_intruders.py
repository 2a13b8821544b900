"""Rights in the simulator: intruders are refused, changes take effect, and honest clients are served."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.access.standard import StandardAuthorizer
from ottla.broker.authorization import DecisionCache
from ottla.model.access import Operation
from ottla.sim.plans import Plan, plan_of
from ottla.sim.scenario import run_plan

PLAN = Plan(seed=3, seconds=8.0, producers=1, intruders=2, faults=("kill", "partition"))


def test_rights_are_obeyed_whatever_is_killed() -> None:
    """Intruders have no rights, the rights of guests change, and honest clients keep theirs."""
    outcome = run_plan(PLAN)
    assert [str(finding) for finding in outcome.findings] == []
    counts = outcome.counts
    assert counts["refused intruder"] > 10
    assert counts["guest served"] > 5
    assert counts["guest refused"] > 1
    assert counts["READ taken"] + counts["WRITE taken"] > 0


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DESCRIBE])
def test_an_authorizer_that_forgets_an_operation_is_found(
    monkeypatch: pytest.MonkeyPatch, operation: Operation
) -> None:
    decide = StandardAuthorizer.authorize

    def authorize(authorizer: StandardAuthorizer, context: Any, requested: Operation, *resource: Any) -> bool:
        return requested is operation or decide(authorizer, context, requested, *resource)

    monkeypatch.setattr(StandardAuthorizer, "authorize", authorize)
    outcome = run_plan(PLAN, ends_at_finding=True)
    assert "nothing without rights" in {finding.rule for finding in outcome.findings}


def test_some_seeds_have_intruders() -> None:
    assert 10 < sum(plan_of(seed).intruders for seed in range(100)) < 35


def broken_rules(**changes: Any) -> set[str]:
    return {finding.rule for finding in run_plan(replace(PLAN, **changes), ends_at_finding=True).findings}


def test_cached_decisions_that_outlive_their_rules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def allows(cache: DecisionCache, context: Any, *question: Any) -> bool:
        cache._version = context.connection.authorizer.decisions_version
        return decide(cache, context, *question)

    decide = DecisionCache.allows
    monkeypatch.setattr(DecisionCache, "allows", allows)
    assert broken_rules(faults=(), seconds=30.0) == {"changed rights are obeyed"}


def test_an_authorizer_that_does_not_follow_the_metadata_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(authorizer: StandardAuthorizer, delta: Any, image: Any) -> None:
        if all(entry.principal == "User:honest" for entry in image.acls.ids):
            follow(authorizer, delta, image)

    follow = StandardAuthorizer.publish
    monkeypatch.setattr(StandardAuthorizer, "publish", publish)
    assert broken_rules(faults=(), seconds=30.0) == {"changed rights are obeyed"}


def test_rules_that_a_restart_loses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(authorizer: StandardAuthorizer, image: Any) -> None:
        authorizer._acls = image.acls
        authorizer.decisions_version += 1

    monkeypatch.setattr(StandardAuthorizer, "start", start)
    assert "rights survive" in broken_rules(faults=("kill",), seconds=30.0)
