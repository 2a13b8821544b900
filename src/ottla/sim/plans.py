"""The parameters of a run as data: drawn from a seed, or read from a file.

A seed is short, but the plan drawn from it changes whenever a parameter is added. A plan in a file stays the same, so
runs that are worth keeping are kept as plans. The other random choices of a run come from random streams of the plan's
seed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random

from ottla.sim.faults.alterations import LateAlterations
from ottla.sim.faults.disks import UnmountedDisk
from ottla.sim.faults.schedule import FAULTS
from ottla.sim.faults.segments import DamagedSegments
from ottla.sim.faults.steps import ALL_STEPS, Step

__all__ = ["Plan", "plan_from_json", "plan_of", "plan_to_json", "step_plans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All parameters of a run. They are drawn from the seed; some of them can be set explicitly."""

    seed: int
    nodes: int = 3
    controllers: int = 1
    # True if the voters are in the metadata log (KIP-853), False if the configuration names them.
    has_voters_in_log: bool = False
    seconds: float = 40.0
    topics: dict[str, int] = field(default_factory=lambda: {"t": 2})
    replication_factor: int = 3
    min_insync_replicas: int = 2
    producers: int = 2
    readers: int = 1
    # Clients that send requests of several APIs on one connection without waiting for answers.
    pipelines: int = 0
    # Clients that send bytes that no honest client sends.
    hostiles: int = 0
    # Clients without rights. With any of them the cluster has an authorizer, honest clients are users with ACLs, and
    # the rights of guests change.
    intruders: int = 0
    # Programs with `ottla.client`.
    applications: int = 0
    churns_topics: bool = True
    groups: int = 1
    # The kinds of groups to draw from: clients that only commit offsets, or members of one of the two protocols.
    group_kinds: tuple[str, ...] = ("commits", "classic", "consumer")
    transactions: int = 0
    # Pairs of instances that copy records from one partition to another, exactly once.
    copies: int = 0
    # True if clients use transaction version 2 (KIP-890), False for version 1; None draws a version for every client.
    is_transaction_version_2: bool | None = None
    # Kills at steps of transactions, in this order. After the last kill no more faults occur.
    steps: tuple[Step, ...] = ()
    moves_replicas: bool = False
    heal_seconds_max: float = 240.0
    faults: tuple[str, ...] = ()
    fault_pause_seconds: tuple[float, float] = (0.5, 8.0)
    settings: dict[str, str] = field(default_factory=dict)
    topic_configs: tuple[tuple[str, str], ...] = ()


def plan_of(
    seed: int,
    *,
    nodes: int | None = None,
    controllers: int | None = None,
    seconds: float | None = None,
    faults: Sequence[str] | None = None,
) -> Plan:
    """The plan drawn from the seed, with the parameters that the caller has set."""
    random = Random(f"{seed}/plan")
    node_count = random.choice((1, 2, 3, 3, 3, 3, 4, 5))
    usual = sorted(set(FAULTS) - {LateAlterations.name, UnmountedDisk.name, DamagedSegments.name})
    kinds = random.sample(usual, random.choice((0, 1, 2, 3, 4, len(usual))))
    chosen_nodes = nodes if nodes is not None else node_count
    replication_factor = min(chosen_nodes, random.choice((1, 2, 3, 3, 3)))
    # Drawn from a separate random stream, so that runs without this fault do not change.
    has_late_alterations = chosen_nodes > 2 and Random(f"{seed}/late alterations").random() < 0.35
    lag_ms_max = 2_000 if has_late_alterations else 30_000
    if has_late_alterations:
        kinds, replication_factor = [*kinds, LateAlterations.name], 3
    drawn_seconds = random.choice((10.0, 20.0, 20.0, 40.0))
    drawn_controllers = random.choice((1, 3, 3, 3)) if chosen_nodes >= 3 else 1
    pause = random.choice(((0.2, 2.0), (0.5, 8.0), (2.0, 15.0)))
    settings = _draw_settings(random, lag_ms_max=lag_ms_max)
    chosen_controllers = min(chosen_nodes, drawn_controllers if controllers is None else controllers)
    quorum_settings, has_voters_in_log = _draw_quorum(seed, chosen_controllers)
    if quorum_settings:
        kinds = [*kinds, UnmountedDisk.name]
    copies = random.choice((0, 0, 0, 1))
    steps_too = bool(copies) and chosen_nodes >= 3 and random.random() < 0.5
    plan = Plan(
        seed=seed,
        nodes=chosen_nodes,
        controllers=chosen_controllers,
        has_voters_in_log=has_voters_in_log,
        seconds=drawn_seconds if seconds is None else seconds,
        topics={"t": random.randint(1, 4), "u": 1} if random.random() < 0.5 else {"t": random.randint(1, 3)},
        replication_factor=replication_factor,
        min_insync_replicas=max(2 if has_late_alterations else 1, min(replication_factor, random.choice((1, 2, 2)))),
        producers=random.randint(1, 4),
        readers=random.randint(1, 2),
        churns_topics=random.random() < 0.5,
        groups=random.choice((0, 1, 1, 2)),
        transactions=random.choice((0, 0, 1, 2)),
        copies=copies,
        steps=tuple(random.sample(ALL_STEPS, 12)) if steps_too else (),
        moves_replicas=random.random() < 0.3,
        faults=tuple(kinds) if faults is None else tuple(faults),
        fault_pause_seconds=pause,
        settings=settings | quorum_settings,
        topic_configs=(("internal.segment.bytes", random.choice(("2048", "20000"))),) if random.random() < 0.5 else (),
        pipelines=random.choice((0, 1, 2)),
        # Drawn from a separate random stream, so that runs without these clients do not change.
        hostiles=int(Random(f"{seed}/hostiles").random() < 0.2),
        intruders=int(Random(f"{seed}/intruders").random() < 0.2),
        applications=Random(f"{seed}/applications").choice((0, 0, 4, 6)),
    )
    return _with_damaged_segments(plan) if faults is None else plan


def _with_damaged_segments(plan: Plan) -> Plan:
    """Adds the fault and the scrub to some plans. Uses a separate random stream, so that other runs do not change."""
    random = Random(f"{plan.seed}/damaged segments")
    is_usual = LateAlterations.name not in plan.faults and UnmountedDisk.name not in plan.faults
    if not is_usual or plan.replication_factor == 1 or random.random() >= 0.6:
        return plan
    scrub = {
        "ottla.log.scrub.bytes.per.second": "1000000",
        "ottla.log.scrub.interval.ms": random.choice(("2000", "10000")),
    }
    return replace(
        plan,
        faults=(*plan.faults, DamagedSegments.name),
        settings=plan.settings | scrub,
        # Segments have to be closed, and their records to be on another replica.
        topic_configs=(("internal.segment.bytes", "2048"),),
        min_insync_replicas=2,
    )


def _draw_settings(random: Random, *, lag_ms_max: int) -> dict[str, str]:
    session_ms = random.choice((3_000, 6_000, 9_000))
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // 4),
        "replica.lag.time.max.ms": str(min(random.choice((2_000, 10_000, 30_000)), lag_ms_max)),
        "replica.fetch.wait.max.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "log.flush.offset.checkpoint.interval.ms": "5000",
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((1_000, 5_000))),
        "controlled.shutdown.enable": random.choice(("true", "true", "false")),
        "initial.broker.registration.timeout.ms": "60000",
    }


def _draw_quorum(seed: int, controllers: int) -> tuple[dict[str, str], bool]:
    """The settings of a quorum with disks that are not mounted, if any, and whether its voters are in the log.

    Drawn from a separate random stream, so that runs without this fault do not change.
    """
    random = Random(f"{seed}/quorum")
    if controllers < 3 or random.random() >= 0.4:
        return {}, False
    has_voters_in_log = random.random() < 0.75
    settings = {"controller.quorum.auto.join.enable": random.choice(("true", "false"))}
    if random.random() < 0.3:
        # The disk of the partitions, too: it does not come back, so that the new one has to join.
        settings["controller.quorum.auto.join.enable"] = "true"
    else:
        settings["metadata.log.dir"] = "/metadata"
    return settings, has_voters_in_log


def step_plans(*, every: int = 1, api: str = "") -> list[Plan]:
    """Plans with all kills at steps of transactions, for both transaction versions.

    `every` selects every n-th kill, `api` the kills at one request.
    """
    return [
        Plan(
            seed=version,
            controllers=3,
            # More time than needed: the run continues as soon as the last kill has happened.
            seconds=len(ALL_STEPS) * 10.0,
            topics={"t": 3},
            producers=1,
            readers=0,
            churns_topics=False,
            groups=0,
            transactions=1,
            copies=1,
            is_transaction_version_2=version == 2,
            steps=tuple(step for step in ALL_STEPS[::every] if api in ("", step.api)),
            settings={
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "700",
                "group.initial.rebalance.delay.ms": "0",
                # Without rebalancing, one node would lead every partition in the end, and would send no markers.
                "leader.imbalance.check.interval.seconds": "2",
                "leader.imbalance.per.broker.percentage": "0",
            },
        )
        for version in (1, 2)
    ]


def plan_to_json(plan: Plan) -> str:
    return json.dumps(asdict(plan), indent=1) + "\n"


def plan_from_json(text: str) -> Plan:
    """The plan in this text. Raises TypeError or ValueError if the text is not a valid plan."""
    fields = json.loads(text)
    unknown = set(fields.get("faults", ())).difference(FAULTS)
    if unknown:
        raise ValueError(f"unknown faults: {', '.join(sorted(unknown))}")
    for name in ("faults", "group_kinds", "fault_pause_seconds"):
        if name in fields:
            fields[name] = tuple(fields[name])
    if "topic_configs" in fields:
        fields["topic_configs"] = tuple((key, value) for key, value in fields["topic_configs"])
    if "steps" in fields:
        fields["steps"] = tuple(Step(*step) for step in fields["steps"])
    return Plan(**fields)
