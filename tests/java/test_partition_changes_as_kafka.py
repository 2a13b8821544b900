"""Elections, eligible leaders and reassignments: our rules beside those of Apache Kafka's controller, at random."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from ottla.metadata.controller.partition_change import Election, PartitionChange
from ottla.metadata.image import PartitionImage
from ottla.model.ids import Uuid
from tests.support.java import ToolServer

CASES = 2_000


def subset(random: Random, values: list[int], *, least: int = 0) -> list[int]:
    """A random subset of the values, in their order."""
    count = random.randint(least, max(len(values), least))
    return sorted(random.sample(values, min(count, len(values))), key=values.index)


def random_case(random: Random) -> dict[str, Any]:
    """A partition in a legal state, and a requested change."""
    replicas = random.sample(range(1, 7), random.randint(1, 5))
    elr_enabled = random.random() < 0.7
    isr = subset(random, replicas, least=0 if elr_enabled else 1)
    out_of_sync = [replica for replica in replicas if replica not in isr]
    is_led = bool(isr) and random.random() < 0.8
    case: dict[str, Any] = {
        "replicas": replicas,
        "isr": isr,
        "leader": random.choice(isr) if is_led else -1,
        "elr": subset(random, out_of_sync) if elr_enabled else [],
        "last_known": [random.choice(replicas)] if elr_enabled and not is_led and random.random() < 0.5 else [],
        "adding": [],
        "removing": [],
        "recovery": int(is_led and len(isr) == 1 and random.random() < 0.2),
        "alive": subset(random, [1, 2, 3, 4, 5, 6]),
        "min_isr": random.randint(1, 3),
        "elr_enabled": elr_enabled,
        "election": random.choice([election.name for election in Election]),
    }
    if random.random() < 0.4:
        case["adding"] = subset(random, replicas)
        case["removing"] = subset(random, [replica for replica in replicas if replica not in case["adding"]])
    kind = random.choice(["nothing", "isr", "isr", "gone", "reassign", "cancel"])
    if kind == "isr":
        case["new_isr"] = subset(random, replicas, least=1)
    elif kind == "gone":
        lost_replica = random.choice(replicas)
        case["new_isr"] = [replica for replica in isr if replica != lost_replica]
        case["alive"] = [broker for broker in case["alive"] if broker != lost_replica]
        if random.random() < 0.5:
            case["unclean"] = [lost_replica]
    elif kind == "reassign":
        new_replicas = random.sample(range(1, 7), random.randint(1, 4))
        removing = sorted(set(replicas) - set(new_replicas))
        adding = sorted(set(new_replicas) - set(replicas))
        # Apache Kafka waits forever for a replica that is being added and then removed.
        if adding or not set(case["adding"]) & set(removing):
            case["new_replicas"] = [*new_replicas, *removing]
            case["new_removing"] = removing
            case["new_adding"] = adding or None
    elif kind == "cancel" and set(case["adding"]) < set(replicas):
        case["new_replicas"] = [replica for replica in replicas if replica not in case["adding"]]
        case["new_isr"] = [replica for replica in isr if replica not in case["adding"]] or case["new_replicas"][:1]
        case["new_adding"] = case["new_removing"] = []
    return case


def ours(case: dict[str, Any]) -> dict[str, Any]:
    def replicas_of_case(name: str) -> tuple[int, ...] | None:
        return None if case.get(name) is None else tuple(case[name])

    partition = PartitionImage(
        replicas=tuple(case["replicas"]),
        isr=tuple(case["isr"]),
        leader=case["leader"],
        leader_epoch=5,
        partition_epoch=9,
        directories=tuple(directory(replica) for replica in case["replicas"]),
        leader_recovery_state=case["recovery"],
        adding_replicas=tuple(case["adding"]),
        removing_replicas=tuple(case["removing"]),
        elr=tuple(case["elr"]),
        last_known_elr=tuple(case["last_known"]),
    )
    change = PartitionChange(
        partition,
        topic_id=Uuid(b"0123456789abcdef"),
        partition_id=0,
        can_lead=lambda replica: replica in case["alive"],
        min_insync_replicas=min(case["min_isr"], len(case["replicas"])),
        elr_enabled=case["elr_enabled"],
        default_directory=directory,
    )
    change.election = Election[case["election"]]
    change.isr = replicas_of_case("new_isr")
    change.replicas = replicas_of_case("new_replicas")
    change.adding = replicas_of_case("new_adding")
    change.removing = replicas_of_case("new_removing")
    change.stopped_uncleanly = replicas_of_case("unclean") or ()
    record = change.build()
    if record is None:
        return {}
    return {
        "leader": record.leader,
        "recovery": record.leader_recovery_state,
        "isr": record.isr,
        "replicas": record.replicas,
        "adding": record.adding_replicas,
        "removing": record.removing_replicas,
        "elr": record.eligible_leader_replicas,
        "last_known": record.last_known_elr,
    }


def outcome(case: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Kafka keeps replicas that a reassignment removed among the eligible leaders; they are removed here."""
    replicas = record.get("replicas") or case["replicas"]
    eligible = case["elr"] if record.get("elr") is None else record["elr"]
    return {**record, "elr": [replica for replica in eligible if replica in replicas]}


def directory(broker_id: int) -> Uuid:
    return Uuid((1000).to_bytes(8, "big") + broker_id.to_bytes(8, "big"))


def test_partitions_change_as_kafkas_do(java: ToolServer) -> None:
    random = Random(966)
    cases = [random_case(random) for _ in range(CASES)]
    result = java.run("PartitionChanges", stdin="".join(json.dumps(case) + "\n" for case in cases))
    assert result.status == 0, result.stderr
    theirs = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(theirs) == CASES
    different = [
        (case, answer, ours(case))
        for case, answer in zip(cases, theirs, strict=True)
        if outcome(case, answer) != outcome(case, ours(case))
    ]
    assert not different, f"{len(different)} differ, the first: {different[0]}"
    # The cases cover the intended situations.
    assert sum(1 for answer in theirs if answer.get("recovery") == 1) > 20
    assert sum(1 for answer in theirs if answer.get("elr")) > 100
    assert sum(1 for answer in theirs if answer.get("last_known")) > 5
