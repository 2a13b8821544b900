"""Workers of `ottla.streams` on virtual time: exactly once, and the checker finds a worker that is not.

`make sim SEEDS=1000` runs many more seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from ottla.client.producer import Producer
from ottla.sim.plans import Plan
from ottla.sim.scenario import Outcome, run_plan
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.worker import Worker
from tests.sim.streams.runs import additions
from tests.sim.streams.topologies import TOPOLOGIES

SEEDS_MAX = 8


def run_simulator(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "tests.sim.streams", *arguments]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
    return done.stdout + done.stderr


def run_short(seed: int, kind: str) -> Outcome:
    plan = Plan(
        seed=seed,
        seconds=8.0,
        controllers=3,
        topics={"t": 2},
        producers=2,
        readers=0,
        churns_topics=False,
        groups=0,
        transactions=1,
        faults=("kill", "connection resets"),
        fault_pause_seconds=(1.0, 4.0),
        settings={
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "700",
            "group.initial.rebalance.delay.ms": "0",
        },
    )
    return run_plan(plan, additions=additions(plan, kind=kind))


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_results_are_those_of_the_machine(kind: str) -> None:
    outcome = run_short(1, kind)
    assert outcome.is_good, outcome.findings
    assert outcome.counts["streams: results compared"] > 100
    assert outcome.counts["application killed"]
    assert outcome.counts["streams: worker frozen"]


def test_a_seed_with_everything() -> None:
    output = run_simulator("--from", "1000", "--seeds", "1", "--seconds", "6", "--keep-going")
    assert "0 failed" in output.splitlines()[-1], output
    assert "streams: results compared" in output


def test_a_run_repeats() -> None:
    digests = {run_simulator("--seed", "3", "--seconds", "2").partition("digest ")[2].split()[0] for _ in range(2)}
    assert len(digests) == 1


def commits_offsets_outside_of_the_transaction(patch: pytest.MonkeyPatch) -> None:
    commit_transaction = Producer.commit_transaction
    consumers: dict[Producer, Worker] = {}
    waiting: dict[Producer, Any] = {}
    commit = Worker._commit

    async def commit_of_worker(worker: Worker) -> None:
        if worker._producer is not None:
            consumers[worker._producer] = worker
        await commit(worker)

    async def send_offsets(producer: Producer, _group: str, offsets: Any, **_: Any) -> None:
        waiting[producer] = offsets

    async def commit_both(producer: Producer) -> None:
        worker = consumers.get(producer)
        if worker is not None and worker._consumer is not None and producer in waiting:
            await worker._consumer.commit(waiting.pop(producer))
        await commit_transaction(producer)

    patch.setattr(Worker, "_commit", commit_of_worker)
    patch.setattr(Producer, "send_offsets", send_offsets)
    patch.setattr(Producer, "commit_transaction", commit_both)


def restores_nothing(patch: pytest.MonkeyPatch) -> None:
    """A restarted worker loses its state: counts begin again."""
    attach = LocalStates.attach

    def attach_at_the_end(states: LocalStates, planned: Any, store: Any, *, first: int, end: int) -> int:
        attach(states, planned, store, first=first, end=end)
        return end

    patch.setattr(LocalStates, "attach", attach_at_the_end)


@pytest.mark.parametrize(
    ("broken", "kind"), [(commits_offsets_outside_of_the_transaction, "stateless"), (restores_nothing, "counting")]
)
def test_a_broken_worker_is_caught(monkeypatch: pytest.MonkeyPatch, broken: Any, kind: str) -> None:
    broken(monkeypatch)
    rules: set[str] = set()
    for seed in range(SEEDS_MAX):
        rules |= {finding.rule for finding in run_short(seed, kind).findings}
        if "streams are exact" in rules:
            return
    pytest.fail(f"no seed of {SEEDS_MAX} has caught it; found: {rules}")
