"""The range assignor: every subscriber gets one run of consecutive partitions of each topic.

Members are in the same order for every topic, so partitions of the same number in topics of the same size go to the
same member, as joins of topics need. Static members are ordered by instance id, which survives a restart. Racks and
previous targets are ignored, as in Apache Kafka 4.3: they would split the runs.
"""

from __future__ import annotations

from ottla.coordinator.group.consumer.assignors.spec import AssignmentSpec, Targets
from ottla.model.ids import Uuid

__all__ = ["assign_ranges"]


def assign_ranges(spec: AssignmentSpec) -> Targets:
    targets: Targets = {member_id: {} for member_id in spec.members}
    ordered = sorted(
        spec.members,
        key=lambda member_id: (spec.members[member_id].instance_id is None, _name(spec, member_id)),
    )
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in ordered:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    for topic_id in sorted(subscribers, key=lambda topic_id: topic_id.bytes):
        members = subscribers[topic_id]
        quota, extra = divmod(spec.topics[topic_id].partition_count, len(members))
        first = 0
        for position, member_id in enumerate(members):
            end = first + quota + (position < extra)
            if end > first:
                targets[member_id][topic_id] = frozenset(range(first, end))
            first = end
    return targets


def _name(spec: AssignmentSpec, member_id: str) -> str:
    return spec.members[member_id].instance_id or member_id
