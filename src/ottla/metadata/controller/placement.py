"""The placement of the replicas of new partitions.

Brokers form a ring in which neighbours are in different racks as far as possible: racks take turns with their next
broker (with racks {0,1,2} and {3,4,5} the ring is 0,3,1,4,2,5). The leader of the first partition is chosen at random,
and further leaders follow around the ring. Followers are the next brokers around the ring with the fewest replicas of
this assignment, one per rack until every rack has one. This spreads leaders and replicas evenly, and the loss of a rack
takes at most one replica of a partition if there are enough racks.

Brokers that advertise the same host name are processes of one machine, which fails as a whole: a partition has one
replica on a machine as long as other machines are available. Machines take precedence over racks.

Fenced brokers come last: they are used only if the replication factor cannot be met without them, and they never lead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["ReplicaPlacer", "UsableBroker", "rack_ring"]


class UsableBroker(NamedTuple):
    broker_id: int
    rack: str | None
    fenced: bool
    # The machine, if it is known.
    host: str | None = None


class ReplicaPlacer:
    """The brokers of one decision, computed once for all of its topics."""

    __slots__ = ("_fenced_ring", "_random", "_ring")

    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        usable = sorted(brokers)
        self._ring = rack_ring([broker for broker in usable if not broker.fenced])
        self._fenced_ring = rack_ring([broker for broker in usable if broker.fenced])
        self._random = random

    def place(
        self, *, partition_count: int, replication_factor: int, start: int | None = None
    ) -> list[tuple[int, ...]]:
        """The replicas of `partition_count` partitions, leader first. `start` fixes the first leader in the ring."""
        ring = self._ring
        if not ring:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "no replica can be placed: every registered broker is fenced, shutting down or cordoned",
            )
        usable = len(ring) + len(self._fenced_ring)
        if replication_factor > usable:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"the replication factor {replication_factor} is larger than the number of brokers "
                f"that take new replicas, which is {usable}",
            )
        first = self._random.randrange(len(ring)) if start is None else start
        if replication_factor == 1:
            size = len(ring)
            return [(ring[(first + index) % size].broker_id,) for index in range(partition_count)]
        return _place_with_followers(ring, self._fenced_ring, first, partition_count, replication_factor)


def rack_ring(brokers: Sequence[UsableBroker]) -> list[UsableBroker]:
    """The brokers, with racks taking turns; brokers without a rack form one rack."""
    racks: dict[str | None, list[UsableBroker]] = {}
    for broker in sorted(brokers):
        racks.setdefault(broker.rack, []).append(broker)
    in_turn = sorted(racks.values(), key=lambda members: members[0].broker_id)
    ring: list[UsableBroker] = []
    for turn in range(max((len(members) for members in in_turn), default=0)):
        ring.extend(members[turn] for members in in_turn if turn < len(members))
    return ring


def _place_with_followers(
    ring: list[UsableBroker],
    fenced_ring: list[UsableBroker],
    first: int,
    partition_count: int,
    replication_factor: int,
) -> list[tuple[int, ...]]:
    size = len(ring)
    load = {broker.broker_id: 0 for broker in (*ring, *fenced_ring)}
    # The leaders are fixed, so a broker's share of followers is its share of replicas without its leaders.
    leaders_to_come = dict.fromkeys(load, 0)
    for index in range(partition_count):
        leaders_to_come[ring[(first + index) % size].broker_id] += 1
    share = -(-partition_count * replication_factor // size)
    assignments: list[tuple[int, ...]] = []
    was_level = True
    while len(assignments) < partition_count:
        index = len(assignments)
        if index and index % size == 0:
            # All brokers have as many replicas as before the last round, relative to each other: the next rounds are
            # the same, until the first broker has its share.
            is_level = not fenced_ring and len(set(load.values())) == 1
            room = share - max(load[broker_id] + leaders_to_come[broker_id] for broker_id in load)
            rounds = min((partition_count - index) // size, room // replication_factor - 1)
            if is_level and was_level and rounds > 0:
                assignments += assignments[-size:] * rounds
                for broker_id in load:
                    load[broker_id] += rounds * replication_factor
                    leaders_to_come[broker_id] -= rounds
                continue
            was_level = is_level
        at = (first + index) % size
        leader = ring[at]
        load[leader.broker_id] += 1
        leaders_to_come[leader.broker_id] -= 1
        chosen = [leader]
        candidates = [*ring[at + 1 :], *ring[:at]]
        while len(chosen) < replication_factor and candidates:
            follower = _next_follower(candidates, chosen, load, leaders_to_come, share)
            candidates.remove(follower)
            chosen.append(follower)
            load[follower.broker_id] += 1
        chosen.extend(
            sorted(fenced_ring, key=lambda broker: load[broker.broker_id])[: replication_factor - len(chosen)]
        )
        for broker in chosen[size:]:
            load[broker.broker_id] += 1
        assignments.append(tuple(broker.broker_id for broker in chosen))
    return assignments


def _next_follower(
    candidates: list[UsableBroker],
    chosen: list[UsableBroker],
    load: dict[int, int],
    leaders_to_come: dict[int, int],
    share: int,
) -> UsableBroker:
    used_racks = {broker.rack for broker in chosen}
    used_hosts = {broker.host for broker in chosen if broker.host is not None}

    def cost(broker: UsableBroker) -> tuple[bool, bool, bool, int]:
        committed = load[broker.broker_id] + leaders_to_come[broker.broker_id]
        is_near = broker.host in used_hosts, broker.rack in used_racks
        return *is_near, committed >= share, load[broker.broker_id]

    # `min` returns the first of equal brokers, which is the next one around the ring.
    return min(candidates, key=cost)
