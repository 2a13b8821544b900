"""Assignors of classic groups, which the leader of a group runs.

An assignor gets every member's subscription, the number of partitions of every topic, and the racks of the replicas. It
prefers members in the rack of a replica where that costs no balance (KIP-881). A custom assignor is an object with a
`name` and a method `assign` (`GroupAssignor`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ottla.client.consumer.sticky import assign_sticky, previous_owners
from ottla.model.ids import TopicPartition

__all__ = [
    "ASSIGNORS",
    "COOPERATIVE",
    "STICKY",
    "Assignment",
    "GroupAssignor",
    "MemberSubscription",
    "Racks",
    "cooperative_sticky",
    "range_assignor",
    "round_robin",
    "sticky",
]

STICKY = "sticky"
COOPERATIVE = "cooperative-sticky"


class MemberSubscription(NamedTuple):
    topics: tuple[str, ...]
    # The partitions of the member: still its own in a cooperative group, those before the rebalance in others.
    owned: tuple[TopicPartition, ...]
    generation: int = -1
    rack: str | None = None
    user_data: bytes = b""


Assignment = dict[str, list[TopicPartition]]
Members = Mapping[str, MemberSubscription]
Racks = Mapping[TopicPartition, frozenset[str]]
Assignor = Callable[[Members, Mapping[str, int], Racks], Assignment]


class GroupAssignor(Protocol):
    """A custom assignor. All members of the group need it under the same name.

    Optional attributes: `is_cooperative`, True if members keep their partitions while they join again;
    `subscription_data(topics) -> bytes`, which the leader gets as `user_data`; `assignment_data(member_id) -> bytes`,
    which the leader calls after `assign`; and `on_assignment(partitions, data, generation)`, which the member calls
    with that data.
    """

    name: str

    def assign(self, members: Members, counts: Mapping[str, int], racks: Racks) -> Assignment: ...


def range_assignor(members: Members, counts: Mapping[str, int], racks: Racks | None = None) -> Assignment:
    """Contiguous ranges of each topic: equal partitions of co-partitioned topics go to the same member."""
    result: Assignment = {member: [] for member in members}
    for topic in _topics(members):
        readers = sorted(member for member, subscription in members.items() if topic in subscription.topics)
        partitions = [TopicPartition(topic, number) for number in range(counts.get(topic, 0))]
        share, extra = divmod(len(partitions), len(readers))
        left = dict.fromkeys(partitions)
        room = {member: share + (1 if index < extra else 0) for index, member in enumerate(readers)}
        if racks and _racks_matter(members, readers, partitions, racks):
            for member in readers:
                near = [partition for partition in left if members[member].rack in racks.get(partition, ())][
                    : room[member]
                ]
                _give(result, room, left, member, near)
        for member in readers:
            _give(result, room, left, member, list(left)[: room[member]])
    return {member: sorted(partitions) for member, partitions in result.items()}


def round_robin(members: Members, counts: Mapping[str, int], _racks: Racks | None = None) -> Assignment:
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


def sticky(members: Members, counts: Mapping[str, int], racks: Racks | None = None) -> Assignment:
    """Fair shares with the fewest moves; members have given everything up before they join."""
    topics = {member: subscription.topics for member, subscription in members.items()}
    near = {member: subscription.rack for member, subscription in members.items()}
    return assign_sticky(_partitions(members, counts), _owners(members), topics, near, racks or {})


def cooperative_sticky(members: Members, counts: Mapping[str, int], racks: Racks | None = None) -> Assignment:
    """Members keep their partitions while shares are fair. A moved partition is first revoked (KIP-429).

    A partition that two members claim is revoked first, too: both members may be reading it.
    """
    owner = _owners(members)
    claimed = {partition for subscription in members.values() for partition in subscription.owned}
    return {
        member: [partition for partition in partitions if owner.get(partition) == member or partition not in claimed]
        for member, partitions in sticky(members, counts, racks).items()
    }


ASSIGNORS: Mapping[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": round_robin,
    STICKY: sticky,
    COOPERATIVE: cooperative_sticky,
}


def _owners(members: Members) -> dict[TopicPartition, str]:
    claims = {
        member: (
            [partition for partition in subscription.owned if partition.topic in subscription.topics],
            subscription.generation,
        )
        for member, subscription in members.items()
    }
    return previous_owners(claims)


def _topics(members: Members) -> list[str]:
    return sorted({topic for member in members.values() for topic in member.topics})


def _partitions(members: Members, counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in _topics(members) for number in range(counts.get(topic, 0))]


def _racks_matter(members: Members, readers: list[str], partitions: list[TopicPartition], racks: Racks) -> bool:
    """False if every partition has a replica in the rack of every member, or no member has a rack with replicas."""
    own = {members[member].rack for member in readers}
    return any(rack in racks.get(partition, ()) for partition in partitions for rack in own) and not all(
        rack in racks.get(partition, ()) for partition in partitions for rack in own
    )


def _give(
    result: Assignment,
    room: dict[str, int],
    left: dict[TopicPartition, None],
    member: str,
    partitions: list[TopicPartition],
) -> None:
    result[member] += partitions
    room[member] -= len(partitions)
    for partition in partitions:
        del left[partition]
