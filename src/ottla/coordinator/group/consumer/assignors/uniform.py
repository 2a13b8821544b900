"""The uniform assignor: all members get the same number of partitions, plus or minus one, and keep as many as possible.

First every member keeps its previous partitions, up to its share. The rest goes to members with room, preferably in the
rack of a replica (KIP-881). When members subscribe to different topics there is no common share: a partition goes to
its least loaded subscriber, and partitions are then moved from heavily to lightly loaded members until no single move
makes the loads more even.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from ottla.coordinator.group.consumer.assignors.spec import AssignmentSpec, Targets
from ottla.model.ids import Uuid

__all__ = ["assign_uniformly"]

_Partition = tuple[Uuid, int]
# Each pass of moves makes the loads more even, so there are few; this is only a safety bound.
_BALANCE_PASSES_MAX = 100


def assign_uniformly(spec: AssignmentSpec) -> Targets:
    held: dict[str, list[_Partition]] = {member_id: [] for member_id in sorted(spec.members)}
    if held:
        if spec.is_homogeneous:
            _assign_homogeneous(spec, held)
        else:
            _assign_heterogeneous(spec, held)
    return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _by_topic(partitions: Iterable[_Partition]) -> dict[Uuid, frozenset[int]]:
    grouped: dict[Uuid, list[int]] = {}
    for topic_id, partition in partitions:
        grouped.setdefault(topic_id, []).append(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in grouped.items()}


def _all_partitions(spec: AssignmentSpec, topic_ids: Iterable[Uuid]) -> list[_Partition]:
    """All partitions, ordered by number before topic, so that neighbouring partitions go to different members."""
    topics = sorted((spec.topics[topic_id] for topic_id in topic_ids), key=lambda topic: topic.topic_id.bytes)
    return [(topic.topic_id, partition) for topic in topics for partition in range(topic.partition_count)]


def _previous(spec: AssignmentSpec, member_id: str, unassigned: dict[_Partition, None]) -> list[_Partition]:
    """The previous partitions that the member may keep: existing, subscribed, and not kept by another member."""
    member = spec.members[member_id]
    return [
        (topic_id, partition)
        for topic_id, partitions in member.previous.items()
        if topic_id in member.topic_ids
        for partition in sorted(partitions)
        if (topic_id, partition) in unassigned
    ]


# All members subscribe to the same topics.


def _assign_homogeneous(spec: AssignmentSpec, held: dict[str, list[_Partition]]) -> None:
    topic_ids = next(iter(spec.members.values())).topic_ids
    unassigned: dict[_Partition, None] = dict.fromkeys(_all_partitions(spec, topic_ids))
    quota, extra = divmod(len(unassigned), len(held))
    room: dict[str, int] = {}
    for member_id, partitions in held.items():
        previous = _previous(spec, member_id, unassigned)
        # A member that has one partition more than the share keeps it.
        share = quota + (extra > 0 and len(previous) > quota)
        extra -= share > quota
        partitions.extend(previous[:share])
        for partition in partitions:
            del unassigned[partition]
        room[member_id] = share - len(partitions)
    for member_id in sorted(held, key=lambda member_id: len(held[member_id])):
        if extra and len(held[member_id]) + room[member_id] == quota:
            room[member_id] += 1
            extra -= 1
    _fill_racks(spec, held, room, unassigned)
    receivers = [member_id for member_id in held if room[member_id]]
    position = 0
    for partition in unassigned:
        member_id = receivers[position % len(receivers)]
        held[member_id].append(partition)
        room[member_id] -= 1
        if room[member_id]:
            position += 1
        else:
            del receivers[position % len(receivers)]


def _fill_racks(
    spec: AssignmentSpec,
    held: dict[str, list[_Partition]],
    room: dict[str, int],
    unassigned: dict[_Partition, None],
) -> None:
    """Assigns partitions to members in the rack of a replica, up to the members' shares."""
    by_rack: dict[str, list[tuple[int, str]]] = {}
    for place, member_id in enumerate(sorted(spec.members, reverse=True)):
        rack = spec.members[member_id].rack_id
        if rack is not None:
            by_rack.setdefault(rack, []).append((place, member_id))
    if not by_rack:
        return
    # The members in some racks, those with the most room first. A member in several heaps may have less room by now.
    heaps: dict[frozenset[str], list[tuple[int, int, str]]] = {}
    for partition in list(unassigned):
        topic_id, number = partition
        racks = spec.topics[topic_id].racks
        if number >= len(racks):
            continue
        heap = heaps.get(racks[number])
        if heap is None:
            heap = heaps[racks[number]] = [
                (-room[candidate], place, candidate)
                for rack in racks[number]
                for place, candidate in by_rack.get(rack, ())
            ]
            heapify(heap)
        while heap:
            known, place, member_id = heappop(heap)
            left = room[member_id]
            if left == -known and left:
                held[member_id].append(partition)
                room[member_id] = left - 1
                del unassigned[partition]
                heappush(heap, (1 - left, place, member_id))
                break
            if left:
                heappush(heap, (-left, place, member_id))


# Members subscribe to different topics.


def _assign_heterogeneous(spec: AssignmentSpec, held: dict[str, list[_Partition]]) -> None:
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in held:
        for topic_id in spec.members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    unassigned = dict.fromkeys(_all_partitions(spec, subscribers))
    owners: dict[_Partition, str] = {}
    loads = dict.fromkeys(held, 0)
    for member_id in held:
        for partition in _previous(spec, member_id, unassigned):
            owners[partition] = member_id
            loads[member_id] += 1
            del unassigned[partition]
    # Topics with few subscribers first, because they have the least choice.
    by_topic: dict[Uuid, list[_Partition]] = {}
    for partition in unassigned:
        by_topic.setdefault(partition[0], []).append(partition)
    for topic_id in sorted(by_topic, key=lambda topic_id: (len(subscribers[topic_id]), topic_id.bytes)):
        _give_to_least_loaded(by_topic[topic_id], subscribers[topic_id], owners, loads)
    _balance(subscribers, owners, loads)
    for partition, member_id in owners.items():
        held[member_id].append(partition)


def _give_to_least_loaded(
    partitions: list[_Partition], members: list[str], owners: dict[_Partition, str], loads: dict[str, int]
) -> None:
    heap = [(loads[member_id], member_id) for member_id in members]
    heapify(heap)
    for partition in partitions:
        load, member_id = heappop(heap)
        owners[partition] = member_id
        loads[member_id] = load + 1
        heappush(heap, (load + 1, member_id))


def _balance(subscribers: dict[Uuid, list[str]], owners: dict[_Partition, str], loads: dict[str, int]) -> None:
    """Moves partitions to the least loaded subscriber while that makes the two loads more even."""
    for _ in range(_BALANCE_PASSES_MAX):
        has_moved = False
        # The least loaded subscriber of each topic, until a move changes the loads.
        least_loaded: dict[Uuid, str] = {}
        for partition in sorted(owners, key=lambda owned: -loads[owners[owned]]):
            owner = owners[partition]
            least = least_loaded.get(partition[0])
            if least is None:
                least = min(subscribers[partition[0]], key=lambda subscriber: loads[subscriber])
                least_loaded[partition[0]] = least
            if loads[owner] - loads[least] > 1:
                owners[partition] = least
                loads[owner] -= 1
                loads[least] += 1
                least_loaded.clear()
                has_moved = True
        if not has_moved:
            return
