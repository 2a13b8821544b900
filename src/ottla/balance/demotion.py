"""Takes the leadership from a broker that is slow. Nothing is copied: the broker stays a replica, the last one."""

from __future__ import annotations

from collections.abc import Collection

from ottla.balance.planner import Movement
from ottla.balance.state import ClusterState
from ottla.balance.steps import Step

__all__ = ["make_demotion"]


def make_demotion(state: ClusterState, broker_id: int, *, spared_topics: Collection[str] = ()) -> tuple[Step, ...]:
    """One step, or none if the broker leads nothing that another broker could lead.

    The topic of the probes is spared, because they have to see when the broker is well again.
    """
    movements = tuple(
        Movement(
            partition=partition,
            before=one.replicas,
            after=(*(each for each in one.replicas if each != broker_id), broker_id),
            size_bytes=0.0,
        )
        for partition, one in sorted(state.partitions.items())
        if one.replicas[0] == broker_id
        and partition.topic not in spared_topics
        and any(state.brokers[each].takes_replicas for each in one.replicas[1:])
    )
    return (Step(movements),) if movements else ()
