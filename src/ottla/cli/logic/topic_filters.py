"""The partition filters of `topics describe`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from ottla.client.admin.partitions import OngoingReassignment
from ottla.client.admin.topics import DescribedPartition, DescribedTopic
from ottla.model.ids import TopicPartition

__all__ = ["Filters", "wanted_partitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    topics_with_overrides: bool = False
    under_replicated_partitions: bool = False
    unavailable_partitions: bool = False
    under_min_isr_partitions: bool = False
    at_min_isr_partitions: bool = False

    @property
    def about_partitions(self) -> bool:
        return (
            self.under_replicated_partitions
            or self.unavailable_partitions
            or self.under_min_isr_partitions
            or self.at_min_isr_partitions
        )


def wanted_partitions(
    topic: DescribedTopic,
    filters: Filters,
    *,
    min_isr: int,
    live: Set[int],
    moving: Mapping[TopicPartition, OngoingReassignment] | None = None,
) -> list[DescribedPartition]:
    """All partitions without a filter; with several, the partitions that match any of them, as in Kafka's tool."""
    if not filters.about_partitions:
        return list(topic.partitions)
    reassignments = moving or {}
    return [
        partition
        for partition in topic.partitions
        if _matches(
            partition,
            filters,
            min_isr=min_isr,
            live=live,
            reassignment=reassignments.get(TopicPartition(topic.name, partition.partition)),
        )
    ]


def _matches(
    partition: DescribedPartition,
    filters: Filters,
    *,
    min_isr: int,
    live: Set[int],
    reassignment: OngoingReassignment | None,
) -> bool:
    # A replica that a reassignment adds is not expected to be in sync yet.
    replicas = partition.replicas if reassignment is None else reassignment.settled
    return (
        (filters.under_replicated_partitions and len(partition.isr) < len(replicas))
        or (filters.unavailable_partitions and (partition.leader < 0 or partition.leader not in live))
        or (filters.under_min_isr_partitions and (partition.leader < 0 or len(partition.isr) < min_isr))
        or (filters.at_min_isr_partitions and len(partition.isr) == min_isr)
    )
