"""One run: a cluster, its workloads, its faults and its checkers, all chosen by the plan.

A run has four phases. First, the cluster starts and the topics are created. Second, workloads and faults run together.
Third, the faults end, everything is healed, and the cluster has a bounded time to recover by itself. Fourth, clients
finish what they have begun, and the checkers compare the answers that clients got with the state of the nodes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from ottla.model.ids import TopicPartition
from ottla.sim.checkers.checker import Checker
from ottla.sim.checkers.connections import ConnectionOrder
from ottla.sim.checkers.consumed import ConsumedRecords
from ottla.sim.checkers.coordinators import CoordinatorInvariants
from ottla.sim.checkers.delivery import Delivery, ReadRecordsStay
from ottla.sim.checkers.groups import CommittedOffsets, OneOwner
from ottla.sim.checkers.healing import unhealed_part
from ottla.sim.checkers.in_sync import InSyncReplicas
from ottla.sim.checkers.invariants import ReplicaInvariants
from ottla.sim.checkers.leadership import OneController, OneLeader
from ottla.sim.checkers.metadata import MetadataInvariants, OneMetadataHistory
from ottla.sim.checkers.quorum import CommittedByVoters
from ottla.sim.checkers.replicas import EqualReplicas
from ottla.sim.checkers.transactions import Transactions
from ottla.sim.cluster import ClusterLayout, Finding, LogCollector, SimCluster
from ottla.sim.faults.schedule import FaultSchedule
from ottla.sim.faults.steps import StepSchedule, Watch
from ottla.sim.history import Copies, History
from ottla.sim.kernel import SECOND_US, Kernel, TimeStandsStill
from ottla.sim.plans import Plan
from ottla.sim.workloads.application_plans import make_applications
from ottla.sim.workloads.consume import Consume
from ottla.sim.workloads.copies import Copy
from ottla.sim.workloads.groups import ClassicMember, ConsumerMember
from ottla.sim.workloads.hostile import Hostile
from ottla.sim.workloads.intrude import Intrude
from ottla.sim.workloads.moves import Moves
from ottla.sim.workloads.offsets import CommitOffsets
from ottla.sim.workloads.pipelines import Pipelines
from ottla.sim.workloads.produce import Produce
from ottla.sim.workloads.read_committed import ReadCommitted
from ottla.sim.workloads.rights import GUARDED, ChangeRights, GiveRights, Guest, report_refusals
from ottla.sim.workloads.rights import SETTINGS as RIGHTS_SETTINGS
from ottla.sim.workloads.topics import ChurnTopics, CreateTopics, partitions_of
from ottla.sim.workloads.transactions import Transact
from ottla.sim.workloads.workload import Stage, Workload

__all__ = ["CHECKERS", "Additions", "Outcome", "run_plan"]

CHECKERS: tuple[type[Checker], ...] = (
    OneLeader,
    OneController,
    CommittedByVoters,
    OneMetadataHistory,
    MetadataInvariants,
    CoordinatorInvariants,
    EqualReplicas,
    InSyncReplicas,
    ReplicaInvariants,
    Delivery,
    ReadRecordsStay,
    OneOwner,
    CommittedOffsets,
    ConsumedRecords,
    Transactions,
    ConnectionOrder,
)

GROUP_KINDS: dict[str, type[ClassicMember] | type[ConsumerMember] | None] = {
    "commits": None,
    "classic": ClassicMember,
    "consumer": ConsumerMember,
}

START_SECONDS_MAX = 120
TOPICS_SECONDS_MAX = 60
FINISH_SECONDS_MAX = 120
SAMPLE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    seed: int
    findings: Sequence[Finding]
    digest: int
    events: int
    virtual_seconds: float
    counts: Counter[str]

    @property
    def is_good(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """Additions to a plan: programs of packages on which the simulator does not depend, and their checkers."""

    # Created with the topics of the plan; no workload of the plan uses them.
    topics: Mapping[str, int] = field(default_factory=dict)
    # Makes workloads from the stage, a random stream and the workloads of the plan.
    workloads: Callable[[Stage, Random, Sequence[Workload]], Sequence[Workload]] = lambda *_: ()
    checkers: Sequence[Callable[[SimCluster, History], Checker]] = ()


def run_plan(
    plan: Plan,
    *,
    on_trace: Callable[[str], object] | None = None,
    ends_at_finding: bool = False,
    additions: Additions | None = None,
) -> Outcome:
    """Runs a plan to its end, or with `ends_at_finding` until the first finding."""
    kernel = Kernel(plan.seed)
    kernel.on_trace = on_trace
    # Set for the whole cluster, so that it holds for coordinator topics and short-lived topics too.
    settings = {"min.insync.replicas": str(plan.min_insync_replicas), **plan.settings}
    if plan.intruders:
        settings |= RIGHTS_SETTINGS
    layout = ClusterLayout(
        nodes=plan.nodes,
        controllers=plan.controllers,
        has_voters_in_log=plan.has_voters_in_log,
        settings=settings,
    )
    cluster = SimCluster(kernel, layout)
    logger = logging.getLogger("ottla")
    collector = LogCollector(cluster)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(collector)
    logger.setLevel(logging.ERROR if on_trace is None else logging.INFO)
    logger.propagate = False
    try:
        _Scenario(plan, cluster, additions or Additions(), ends_at_finding=ends_at_finding).run()
    finally:
        logger.removeHandler(collector)
        logger.setLevel(level)
        logger.propagate = propagates
    return Outcome(
        seed=plan.seed,
        findings=tuple(cluster.findings),
        digest=kernel.digest,
        events=kernel.events_run,
        virtual_seconds=kernel.now_seconds,
        counts=kernel.counts,
    )


class _Scenario:
    def __init__(self, plan: Plan, cluster: SimCluster, additions: Additions, *, ends_at_finding: bool) -> None:
        self._plan = plan
        self._additions = additions
        self._ends_at_finding = ends_at_finding
        self._cluster = cluster
        self._kernel = cluster.kernel
        self._random = cluster.kernel.random_for("scenario")
        self._history = History()
        self._stage = Stage(cluster=cluster, history=self._history, partitions=partitions_of(plan.topics))
        self._checkers = [checker(cluster, self._history) for checker in CHECKERS]
        self._checkers += [make(cluster, self._history) for make in additions.checkers]
        self._workloads: list[Workload] = []

    def run(self) -> None:
        try:
            if not self._begin():
                return
            self._trouble()
            if not self._is_over and self._heal() and not self._is_over:
                self._finish()
            for checker in self._checkers:
                checker.sample()
        except TimeStandsStill as error:
            self._cluster.report("liveness", str(error))
        finally:
            for rule, sentence in self._history.violations:
                self._cluster.report(rule, sentence)
            for workload in self._workloads:
                workload.close()

    # -- the phases ------------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        cluster, plan = self._cluster, self._plan
        cluster.start()
        self._sample()
        if not self._wait(START_SECONDS_MAX, lambda: cluster.all_serve):
            cluster.report("liveness", f"the cluster did not start: {unhealed_part(cluster)}")
            return False
        if plan.intruders and not self._prepare(GiveRights(self._stage, "rights"), "rights could not be given"):
            return False
        guarded = {GUARDED.topic: 1} if plan.intruders else {}
        topics = {**plan.topics, **guarded, **self._additions.topics}
        configs = (("min.insync.replicas", str(plan.min_insync_replicas)), *plan.topic_configs)
        create = CreateTopics(self._stage, "admin", topics, replication_factor=plan.replication_factor, configs=configs)
        return self._prepare(create, "the topics could not be created")

    def _prepare(self, workload: Workload, complaint: str) -> bool:
        """Runs the workload to its end, before the trouble begins."""
        self._workloads.append(workload)
        workload.start()
        if not self._wait(TOPICS_SECONDS_MAX, lambda: workload.is_done):
            self._cluster.report("liveness", complaint)
            return False
        return True

    def _trouble(self) -> None:
        plan = self._plan
        applications = make_applications(
            self._stage, self._kernel.random_for("scenario, applications"), plan.applications
        )
        workloads = [*self._make_workloads(), *applications]
        workloads += self._additions.workloads(
            self._stage, self._kernel.random_for("scenario, additions"), tuple(workloads)
        )
        self._workloads += workloads
        for workload in workloads:
            if plan.intruders and workload.network == Workload.network:
                report_refusals(workload.client, self._history)
            workload.start()
        schedule = FaultSchedule(
            self._cluster, self._kernel.random_for("faults"), plan.faults, pause_seconds=plan.fault_pause_seconds
        )
        schedule.start()
        steps = StepSchedule(Watch(self._cluster, self._stage.transactional_hosts), self._cluster, plan.steps)
        steps.start()
        self._wait(plan.seconds, lambda: bool(plan.steps) and steps.is_over)
        schedule.end()
        steps.end()

    def _heal(self) -> bool:
        cluster = self._cluster
        cluster.heal()
        # Faults that were planned to end by themselves get a moment to do so.
        self._wait(1.0, lambda: False)
        cluster.restart_seconds = (0.1, 1.0)
        if not self._wait(self._plan.heal_seconds_max, self._is_healed):
            cluster.report(
                "liveness",
                f"not healed {self._plan.heal_seconds_max:.0f} s after the last fault: {unhealed_part(cluster)}",
            )
            return False
        return True

    def _finish(self) -> None:
        self._stage.is_ending = True
        if not self._wait(FINISH_SECONDS_MAX, lambda: all(workload.is_done for workload in self._workloads)):
            names = ", ".join(workload.name for workload in self._workloads if not workload.is_done)
            self._cluster.report("liveness", f"these clients could not finish in a healthy cluster: {names}")
        self._wait(5.0, lambda: False)
        if not self._wait(self._plan.heal_seconds_max, self._is_healed):
            self._cluster.report(
                "liveness", f"the cluster had healed and is unhealthy again: {unhealed_part(self._cluster)}"
            )
        for checker in self._checkers:
            checker.finish()

    @property
    def _is_over(self) -> bool:
        return self._ends_at_finding and bool(self._cluster.findings or self._history.violations)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _is_healed(self) -> bool:
        # Called after every event, so the cheap check comes first, and the expensive check runs ten times a second.
        if not self._cluster.all_serve or self._kernel.now_us < self._next_check_us:
            return False
        self._next_check_us = self._kernel.now_us + SECOND_US // 10
        return unhealed_part(self._cluster) is None

    _next_check_us = 0

    def _wait(self, seconds: float, is_done: Callable[[], bool]) -> bool:
        end_us = self._kernel.now_us + round(seconds * SECOND_US)
        return self._kernel.run_until(end_us, lambda: self._is_over or is_done())

    def _sample(self) -> None:
        for checker in self._checkers:
            checker.sample()
        self._kernel.after(round(SAMPLE_SECONDS * SECOND_US), self._sample)

    def _make_workloads(self) -> list[Workload]:
        plan, stage, random = self._plan, self._stage, self._random
        partitions: Sequence[TopicPartition] = stage.partitions
        workloads: list[Workload] = []
        for number in range(plan.producers):
            acks = random.choice((-1, -1, -1, 1))
            workloads.append(
                Produce(
                    stage,
                    f"producer-{number}",
                    random.choice(partitions),
                    acks=acks,
                    is_idempotent=acks == -1 and random.random() < 0.7,
                    in_flight=random.randint(1, 4),
                    pause_seconds=random.choice((0.05, 0.2, 0.5)),
                    records_max=random.randint(1, 5),
                    value_bytes=random.choice((20, 20, 300)),
                )
            )
        workloads.extend(
            Consume(
                stage,
                f"reader-{number}",
                partitions,
                pause_seconds=random.choice((0.05, 0.3)),
                max_wait_ms=random.choice((0, 100, 500)),
            )
            for number in range(plan.readers)
        )
        if plan.churns_topics:
            workloads.append(
                ChurnTopics(
                    stage, "churn", replication_factor=plan.replication_factor, pause_seconds=random.choice((0.5, 3.0))
                )
            )
        workloads.extend(
            Transact(
                stage,
                f"transactions-{number}",
                partitions,
                is_version_2=self._draws_version_2(random),
                pause_seconds=random.choice((0.1, 0.5)),
            )
            for number in range(plan.transactions)
        )
        workloads.extend(self._make_copies())
        if plan.transactions or plan.copies:
            workloads.append(ReadCommitted(stage, "reader-of-committed", partitions, pause_seconds=0.2))
        if plan.moves_replicas:
            workloads.append(
                Moves(
                    stage,
                    "moves",
                    partitions,
                    replication_factor=plan.replication_factor,
                    pause_seconds=random.choice((0.5, 2.0)),
                )
            )
        return [*workloads, *self._make_group_members(), *self._make_pipelines(), *self._make_hostiles()]

    def _make_hostiles(self) -> list[Workload]:
        random = self._kernel.random_for("scenario, hostiles")
        hostiles = [
            Hostile(self._stage, f"hostile-{number}", random.choice(self._stage.partitions))
            for number in range(self._plan.hostiles)
        ]
        intruders = [
            Intrude(self._stage, f"intruder-{number}", random.choice(self._stage.partitions))
            for number in range(self._plan.intruders)
        ]
        return [*hostiles, *intruders, *self._make_guests()]

    def _make_guests(self) -> list[Workload]:
        if not self._plan.intruders:
            return []
        random = self._kernel.random_for("scenario, rights")
        administrator = ChangeRights(self._stage, "administrator", pause_seconds=random.choice((0.2, 1.0)))
        guests = [Guest(self._stage, f"guest-{number}", administrator) for number in range(random.choice((1, 2)))]
        return [administrator, *guests]

    def _make_pipelines(self) -> list[Workload]:
        random = self._kernel.random_for("scenario, pipelines")
        return [
            Pipelines(
                self._stage,
                f"pipelines-{number}",
                random.choice(self._stage.partitions),
                requests_max=random.choice((4, 12)),
                bytes_per_second=random.choice((0, 2_000)),
            )
            for number in range(self._plan.pipelines)
        ]

    def _draws_version_2(self, random: Random) -> bool:
        drawn = random.random() < 0.5
        return drawn if self._plan.is_transaction_version_2 is None else self._plan.is_transaction_version_2

    def _make_copies(self) -> list[Workload]:
        plan, stage, partitions = self._plan, self._stage, self._stage.partitions
        workloads: list[Workload] = []
        for number in range(plan.copies if len(partitions) > 1 else 0):
            random = self._kernel.random_for(f"scenario, copies {number}")
            source, target = random.sample(list(partitions), 2)
            copies = Copies(name=f"copies-{number}", source=source, target=target)
            self._history.copies.append(copies)
            is_version_2, instances = self._draws_version_2(random), random.choice((1, 2))
            workloads.extend(
                Copy(
                    stage,
                    f"copies-{number}-{index}",
                    copies,
                    is_version_2=is_version_2,
                    pause_seconds=random.choice((0.05, 0.3)),
                    takes_over=instances > 1,
                )
                for index in range(instances)
            )
        return workloads

    def _make_group_members(self) -> list[Workload]:
        plan, stage, random, partitions = self._plan, self._stage, self._random, self._stage.partitions
        workloads: list[Workload] = []
        for number in range(plan.groups):
            kind = GROUP_KINDS[random.choice(plan.group_kinds)]
            if kind is None:
                workloads.append(CommitOffsets(stage, f"commits-{number}", partitions, pause_seconds=0.5))
            else:
                workloads.extend(
                    kind(stage, f"member-{number}-{index}", f"group-{number}", partitions)
                    for index in range(random.randint(1, 3))
                )
        return workloads
