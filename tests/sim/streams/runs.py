"""The runs: the plan of any seed, on a cluster that loses no records, with workers of one streams application."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from ottla.sim.plans import Plan
from ottla.sim.runner import Runs
from ottla.sim.scenario import Additions
from ottla.sim.workloads.workload import Stage, Workload
from ottla.streams.runtime.config import ApplicationConfig
from tests.sim.streams.checker import SameAsTheMachine
from tests.sim.streams.topologies import OUTPUT, TOPOLOGIES
from tests.sim.streams.workers import Ending, Shared, StreamsWorker

__all__ = ["RUNS", "additions", "with_three_replicas"]

APPLICATION = "streams"


def with_three_replicas(plan: Plan) -> Plan:
    """A plan in which acknowledged records survive: with fewer replicas some faults lose them."""
    return replace(
        plan,
        nodes=max(plan.nodes, 3),
        replication_factor=3,
        min_insync_replicas=2,
        # Records for the application to read, some of them in aborted transactions.
        producers=max(plan.producers, 2),
        transactions=max(plan.transactions, 1),
        # The workers are not among the users with rights.
        intruders=0,
    )


def additions(plan: Plan, *, kind: str | None = None) -> Additions:
    random = Random(f"{plan.seed}/streams")
    drawn = random.choice(list(TOPOLOGIES))
    directory = Path(tempfile.mkdtemp(prefix="ottla-sim-streams-")) if random.random() < 0.5 else None
    properties = {
        "application.id": APPLICATION,
        "bootstrap.servers": "simulated:9092",
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": random.choice((20, 100, 1_000)),
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 500,
        "transaction.timeout.ms": random.choice((5_000, 10_000)),
        "num.standby.replicas": random.choice((0, 0, 1)),
        # The checker reads repartition topics from their beginning.
        "repartition.purge.interval.ms": 100_000_000,
    }
    shared = Shared(
        topology=TOPOLOGIES[kind or drawn](),
        config=ApplicationConfig.from_properties(properties),
        directory=directory,
    )
    return Additions(
        topics={OUTPUT: 2},
        workloads=partial(_make_workloads, shared),
        checkers=[partial(SameAsTheMachine, shared=shared)],
    )


def _make_workloads(shared: Shared, stage: Stage, random: Random, others: Sequence[Workload]) -> list[Workload]:
    workers = [
        StreamsWorker(stage, f"streams-{number}", number, shared, is_troubled=random.random() < 0.8)
        for number in range(random.choice((1, 2, 2, 3)))
    ]
    return [*workers, Ending(stage, "streams-ending", shared, others)]


RUNS = Runs(program="tests.sim.streams", change=with_three_replicas, additions=additions)
