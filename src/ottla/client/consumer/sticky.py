"""Sticky assignment: fair shares, and among the fair ones an assignment with few moves.

Members keep their previous partitions, as far as their share allows it. Every other partition goes to the subscribed
member with the fewest partitions; among equal members, to one in the rack of a replica. At last partitions move from
members with more to members with fewer as long as a move makes the difference smaller: with unequal subscriptions only
these moves bring balance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.model.ids import TopicPartition

__all__ = ["assign_sticky", "previous_owners"]


def previous_owners(claims: Mapping[str, tuple[Sequence[TopicPartition], int]]) -> dict[TopicPartition, str]:
    """Partition -> member. If two members claim a partition, the claim of the later generation counts.

    Two claims of the same generation are both wrong: one of the members has missed a rebalance.
    """
    owner: dict[TopicPartition, str] = {}
    generation: dict[TopicPartition, int] = {}
    disputed: set[TopicPartition] = set()
    for member, (partitions, claimed_in) in claims.items():
        for partition in partitions:
            known = generation.get(partition)
            if known is None or known < claimed_in:
                owner[partition], generation[partition] = member, claimed_in
                disputed.discard(partition)
            elif known == claimed_in and owner[partition] != member:
                disputed.add(partition)
    return {partition: member for partition, member in owner.items() if partition not in disputed}


def assign_sticky(
    partitions: Sequence[TopicPartition],
    owner: Mapping[TopicPartition, str],
    topics: Mapping[str, Sequence[str]],
    rack: Mapping[str, str | None],
    racks: Mapping[TopicPartition, frozenset[str]],
) -> dict[str, list[TopicPartition]]:
    readers = _readers(topics)
    result: dict[str, list[TopicPartition]] = {member: [] for member in sorted(topics)}
    left = _keep(partitions, owner, readers, result)
    for partition in left:
        able = readers.get(partition.topic, [])
        if able:
            near = racks.get(partition, frozenset())
            chosen = min(able, key=lambda member: (len(result[member]), rack.get(member) not in near, member))
            result[chosen].append(partition)
    _balance(partitions, readers, result, owner)
    return result


def _readers(topics: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for member in sorted(topics):
        for topic in dict.fromkeys(topics[member]):
            readers.setdefault(topic, []).append(member)
    return readers


def _keep(
    partitions: Sequence[TopicPartition],
    owner: Mapping[TopicPartition, str],
    readers: Mapping[str, list[str]],
    result: dict[str, list[TopicPartition]],
) -> list[TopicPartition]:
    """Gives members their previous partitions, up to their share; returns the partitions that are left."""
    share, extra = divmod(len(partitions), max(len(result), 1))
    has_equal_topics = len({tuple(able) for able in readers.values()}) <= 1
    left: list[TopicPartition] = []
    for partition in partitions:
        member = owner.get(partition)
        if member is None or member not in readers.get(partition.topic, ()):
            left.append(partition)
        elif not has_equal_topics or len(result[member]) < share:
            result[member].append(partition)
        elif len(result[member]) == share and extra:
            result[member].append(partition)
            extra -= 1
        else:
            left.append(partition)
    return left


def _balance(
    partitions: Sequence[TopicPartition],
    readers: Mapping[str, list[str]],
    result: dict[str, list[TopicPartition]],
    owner: Mapping[TopicPartition, str],
) -> None:
    held_by = {partition: member for member, held in result.items() for partition in held}
    # Partitions that have moved anyway move first.
    order = sorted(partitions, key=lambda partition: owner.get(partition) == held_by.get(partition))
    moved = True
    while moved:
        moved = False
        for partition in order:
            member = held_by.get(partition)
            if member is None:
                continue
            least = min(readers[partition.topic], key=lambda other: (len(result[other]), other))
            if len(result[member]) - len(result[least]) > 1:
                result[member].remove(partition)
                result[least].append(partition)
                held_by[partition] = least
                moved = True
