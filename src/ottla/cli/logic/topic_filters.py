"""The partition filters of `topics describe`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from ottla.client.admin.topics import DescribedPartition, DescribedTopic

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
    topic: DescribedTopic, filters: Filters, *, min_isr: int, live: Set[int]
) -> list[DescribedPartition]:
    """All partitions without a filter; with several, the partitions that match any of them, as in Kafka's tool."""
    if not filters.about_partitions:
        return list(topic.partitions)
    return [partition for partition in topic.partitions if _matches(partition, filters, min_isr=min_isr, live=live)]


def _matches(partition: DescribedPartition, filters: Filters, *, min_isr: int, live: Set[int]) -> bool:
    return (
        (filters.under_replicated_partitions and len(partition.isr) < len(partition.replicas))
        or (filters.unavailable_partitions and (partition.leader < 0 or partition.leader not in live))
        or (filters.under_min_isr_partitions and len(partition.isr) < min_isr)
        or (filters.at_min_isr_partitions and len(partition.isr) == min_isr)
    )
