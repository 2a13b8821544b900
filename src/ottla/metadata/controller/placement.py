"""Where the replicas of new partitions go.

Brokers are laid out in a ring in which neighbours are in different racks as far as possible: racks take turns, each
giving its next broker (with racks {0,1,2} and {3,4,5} the ring is 0,3,1,4,2,5). The leader of the first partition is
drawn at random, further leaders follow round the ring. Followers are the next brokers round the ring that hold fewest
replicas of this assignment, one per rack until every rack has one. So leaders and replicas are spread evenly, and the
loss of a rack takes at most one replica of a partition when there are enough racks.

Fenced brokers come last: they are used only when the replication factor cannot be met without them, and never lead.
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


class ReplicaPlacer:
    """The brokers of one decision, laid out once for all the topics that it places."""

    __slots__ = ("_fenced_ring", "_random", "_ring")

    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        usable = sorted(brokers)
        self._ring = rack_ring([broker for broker in usable if not broker.fenced])
        self._fenced_ring = rack_ring([broker for broker in usable if broker.fenced])
        self._random = random

    def place(
        self, *, partition_count: int, replication_factor: int, start: int | None = None
    ) -> list[tuple[int, ...]]:
        """Replica lists of `partition_count` partitions, leaders first. `start` pins the first leader in the ring."""
        ring = self._ring
        if not ring:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "no replica can be placed: every registered broker is fenced, shutting down or closed to new replicas",
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
    """Brokers with racks taking turns; brokers without a rack count as one rack of their own."""
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
    # Leaders are given beforehand, so a broker's share of followers is what is left of its share of replicas.
    leaders_to_come = dict.fromkeys(load, 0)
    for index in range(partition_count):
        leaders_to_come[ring[(first + index) % size].broker_id] += 1
    share = -(-partition_count * replication_factor // size)
    assignments: list[tuple[int, ...]] = []
    for index in range(partition_count):
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

    def cost(broker: UsableBroker) -> tuple[bool, bool, int]:
        committed = load[broker.broker_id] + leaders_to_come[broker.broker_id]
        return broker.rack in used_racks, committed >= share, load[broker.broker_id]

    # `min` keeps the first of equals, which is the next one round the ring.
    return min(candidates, key=cost)
