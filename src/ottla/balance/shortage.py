"""Explains why replicas have no place: how many brokers there are for how many replicas, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.balance.state import ClusterState
from ottla.model.ids import TopicPartition

__all__ = ["Shortage", "find_shortages", "named_brokers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Partitions with the same number of replicas, for which the same brokers are left."""

    partitions: tuple[TopicPartition, ...]
    # The replication factor that the partitions should have.
    replicas: int
    # Brokers that can have their replicas.
    brokers: tuple[int, ...]
    # The problem, and what the operator can do.
    text: str
    remedy: str


def find_shortages(state: ClusterState, stranded: Iterable[TopicPartition]) -> list[Shortage]:
    """For partitions with a replica that cannot stay and cannot go anywhere; the largest group first."""
    groups: defaultdict[tuple[int, tuple[int, ...]], set[TopicPartition]] = defaultdict(set)
    for partition in stranded:
        able = tuple(sorted(broker_id for broker_id in state.brokers if not state.must_move(partition, broker_id)))
        groups[(len(state.partitions[partition].replicas), able)].add(partition)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [_shortage(state, replicas, able, tuple(sorted(partitions))) for (replicas, able), partitions in ordered]


def _shortage(
    state: ClusterState, replicas: int, able: tuple[int, ...], partitions: tuple[TopicPartition, ...]
) -> Shortage:
    holders = {broker_id for partition in partitions for broker_id in state.partitions[partition].replicas}
    lost = sorted(holders - set(able))
    count = "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"
    text = f"{count} cannot have {replicas} replicas: {_why(state, lost)}, and "
    if len(able) < replicas:
        text += f"only {named_brokers(able)} can take replicas." if able else "no other broker can take replicas."
    else:
        text += (
            f"moving their replicas to {named_brokers(able)} would violate a hard goal (capacity, racks or machines)."
        )
    return Shortage(
        partitions=partitions,
        replicas=replicas,
        brokers=able,
        text=text,
        remedy=_remedy(state, lost, max(replicas - len(able), 1)),
    )


def _why(state: ClusterState, lost: list[int]) -> str:
    dead = [broker_id for broker_id in lost if broker_id not in state.brokers or not state.brokers[broker_id].is_alive]
    drained = [broker_id for broker_id in lost if broker_id not in dead and state.brokers[broker_id].is_draining]
    failed = [broker_id for broker_id in lost if broker_id not in dead and broker_id not in drained]
    reasons = [
        f"{named_brokers(brokers)} {words if len(brokers) == 1 else words_of_many}"
        for brokers, words, words_of_many in (
            (dead, "is gone", "are gone"),
            (drained, "is being emptied", "are being emptied"),
            (failed, "has a failed directory", "have failed directories"),
        )
        if brokers
    ]
    return " and ".join(reasons)


def _remedy(state: ClusterState, lost: list[int], missing: int) -> str:
    added = "add a broker" if missing == 1 else f"add {missing} brokers"
    dead = [broker_id for broker_id in lost if broker_id not in state.brokers or not state.brokers[broker_id].is_alive]
    if dead:
        return f"Start {named_brokers(dead)} again, or {added} and run 'ottla balance run'."
    return f"{added.capitalize()}, then run the command again."


def named_brokers(brokers: Iterable[int]) -> str:
    """`broker 1`, `brokers 1 and 2`, `brokers 1, 2 and 3`."""
    ids = [str(broker_id) for broker_id in brokers]
    if len(ids) == 1:
        return f"broker {ids[0]}"
    return f"brokers {', '.join(ids[:-1])} and {ids[-1]}"
