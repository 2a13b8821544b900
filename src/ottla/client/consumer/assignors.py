"""Assignors of classic groups, which the leader of a group runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["ASSIGNORS", "COOPERATIVE", "MemberSubscription", "cooperative_sticky", "range_assignor", "round_robin"]

COOPERATIVE = "cooperative-sticky"


class MemberSubscription(NamedTuple):
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    generation: int = -1


Assignment = dict[str, list[TopicPartition]]
Assignor = Callable[[Mapping[str, MemberSubscription], Mapping[str, int]], Assignment]


def range_assignor(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Contiguous ranges of each topic: equal partitions of co-partitioned topics go to the same member."""
    result: Assignment = {member: [] for member in members}
    for topic in sorted({topic for member in members.values() for topic in member.topics}):
        readers = sorted(member for member, subscription in members.items() if topic in subscription.topics)
        each, extra = divmod(counts.get(topic, 0), len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + each + (1 if index < extra else 0)
            result[member] += [TopicPartition(topic, number) for number in range(start, end)]
            start = end
    return result


def round_robin(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Partitions in turn to the members that subscribe to their topic."""
    result: Assignment = {member: [] for member in members}
    order = sorted(members)
    turn = 0
    for partition in _partitions(members, counts):
        for _ in order:
            member = order[turn % len(order)]
            turn += 1
            if partition.topic in members[member].topics:
                result[member].append(partition)
                break
    return result


def cooperative_sticky(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> Assignment:
    """Members keep their partitions while shares are fair. A moved partition is first revoked (KIP-429)."""
    wanted = _partitions(members, counts)
    owner: dict[TopicPartition, str] = {}
    generation: dict[TopicPartition, int] = {}
    for member, one in members.items():
        for partition in one.owned:
            # If two members claim a partition, the member of the latest generation keeps it.
            if partition.topic in one.topics and generation.get(partition, -2) < one.generation:
                owner[partition], generation[partition] = member, one.generation
    result = _fair(wanted, owner, members)
    return {
        member: [one for one in partitions if owner.get(one, member) == member] for member, partitions in result.items()
    }


ASSIGNORS: Mapping[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": round_robin,
    COOPERATIVE: cooperative_sticky,
}


def _partitions(members: Mapping[str, MemberSubscription], counts: Mapping[str, int]) -> list[TopicPartition]:
    topics = sorted({topic for member in members.values() for topic in member.topics})
    return [TopicPartition(topic, number) for topic in topics for number in range(counts.get(topic, 0))]


def _fair(
    wanted: Sequence[TopicPartition], owner: Mapping[TopicPartition, str], members: Mapping[str, MemberSubscription]
) -> Assignment:
    result: Assignment = {member: [] for member in sorted(members)}
    share, extra = divmod(len(wanted), max(len(members), 1))
    left = []
    full = 0
    for partition in wanted:
        member = owner.get(partition)
        if member is not None and len(result[member]) < share:
            result[member].append(partition)
        elif member is not None and len(result[member]) == share and full < extra:
            result[member].append(partition)
            full += 1
        else:
            left.append(partition)
    for partition in left:
        readers = [member for member in result if partition.topic in members[member].topics]
        if readers:
            result[min(readers, key=lambda member: (len(result[member]), member))].append(partition)
    return result
