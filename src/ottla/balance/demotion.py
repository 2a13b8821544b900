"""Takes the leadership from a slow broker. Nothing is copied: the broker becomes the last replica."""

from __future__ import annotations

from collections.abc import Collection

from ottla.balance.planner import Movement
from ottla.balance.state import ClusterState
from ottla.balance.steps import Step
from ottla.model.ids import TopicPartition

__all__ = ["make_demotion"]


def make_demotion(state: ClusterState, broker_id: int, *, spared_topics: Collection[str] = ()) -> tuple[Step, ...]:
    """One step, or none if the broker leads nothing that another broker could lead.

    The topic of the probes is spared, because the probes have to notice when the broker recovers.
    """
    movements = tuple(
        Movement(
            partition=partition,
            before=current.replicas,
            after=_demoted(state, partition, broker_id),
            size_bytes=0.0,
        )
        for partition, current in sorted(state.partitions.items())
        if current.replicas[0] == broker_id
        and partition.topic not in spared_topics
        and any(not state.must_move(partition, replica) for replica in current.replicas[1:])
    )
    return (Step(movements),) if movements else ()


def _demoted(state: ClusterState, partition: TopicPartition, broker_id: int) -> tuple[int, ...]:
    """The replicas with the broker at the end. The first replica can lead: no other replica would be elected."""
    others = [replica for replica in state.partitions[partition].replicas if replica != broker_id]
    return (*sorted(others, key=lambda replica: state.must_move(partition, replica)), broker_id)
