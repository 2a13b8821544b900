"""Kills at steps of transactions: a sample of them here, all of them with `python -m ottla.sim --steps`."""

from __future__ import annotations

from ottla.sim.faults.steps import ALL_STEPS
from ottla.sim.plans import step_plans
from tests.sim.commands import run_simulator


def test_transactions_survive_kills_at_their_steps() -> None:
    output = run_simulator("--steps", "--every", "13", "--keep-going")
    assert "0 failed" in output.splitlines()[-1], output
    assert "killed at END_TXN" in output
    assert "killed at WRITE_TXN_MARKERS" in output
    assert "late EndTxn of an earlier transaction: PRODUCER_FENCED" in output


def test_every_step_is_listed_with_all_of_its_participants() -> None:
    assert len(set(ALL_STEPS)) == 7 * 4 * 3
    assert [plan.steps for plan in step_plans()] == [ALL_STEPS, ALL_STEPS]
    assert {plan.is_transaction_version_2 for plan in step_plans()} == {True, False}
