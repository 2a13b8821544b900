"""Divides a plan into steps that are executed one after the other. No hard goal is violated on the way.

While a replica is copied, both brokers have it: the new broker carries it from the beginning of its step, and the old
broker until the end. A movement waits until its new brokers have room for the replica.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.balance.goals import CAPACITY_SHARE_MAX
from ottla.balance.planner import Movement
from ottla.balance.state import BrokerState, ClusterState, PartitionState

__all__ = ["Step", "Steps", "make_steps", "seconds_of"]

# Replicas that a broker copies, or gives, at the same time.
COPIES_MAX = 5


@dataclass(frozen=True, slots=True)
class Step:
    movements: tuple[Movement, ...]

    @property
    def size_bytes(self) -> float:
        return sum(movement.size_bytes for movement in self.movements)


@dataclass(frozen=True, slots=True)
class Steps:
    steps: tuple[Step, ...]
    # Movements for which there is no room in any order; the rest of the plan is valid without them.
    postponed: tuple[Movement, ...]


class _Room:
    """The loads of brokers while replicas are copied."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._disk: defaultdict[int, float] = defaultdict(float)
        self._in_rate: defaultdict[int, float] = defaultdict(float)
        self._replicas: Counter[int] = Counter()
        for partition in state.partitions.values():
            self.count(partition, partition.replicas, 1)

    def count(self, partition: PartitionState, brokers: Iterable[int], sign: int) -> None:
        for broker_id in brokers:
            self._disk[broker_id] += sign * partition.size_bytes
            self._in_rate[broker_id] += sign * partition.in_rate
            self._replicas[broker_id] += sign

    def fits(self, partition: PartitionState, broker_id: int) -> bool:
        broker = self._state.brokers[broker_id]
        return (
            self._disk[broker_id] + partition.size_bytes <= broker.disk_bytes * CAPACITY_SHARE_MAX
            and self._in_rate[broker_id] + partition.in_rate <= broker.in_rate_max * CAPACITY_SHARE_MAX
            and self._replicas[broker_id] + 1 <= broker.replicas_max * CAPACITY_SHARE_MAX
        )

    def fullness(self, broker: BrokerState | None) -> float:
        return 0.0 if broker is None else self._disk[broker.broker_id] / max(broker.disk_bytes, 1.0)


def make_steps(state: ClusterState, movements: Sequence[Movement], *, copies_max: int = COPIES_MAX) -> Steps:
    room = _Room(state)
    waiting = [movement for movement in movements if movement.added]
    steps = []
    # Full brokers give first, which makes room for the replicas that they get.
    waiting.sort(key=lambda movement: (-_fullest(room, state, movement.removed), movement.partition))
    while waiting:
        copies: Counter[int] = Counter()
        chosen = []
        left = []
        for movement in waiting:
            current = state.partitions[movement.partition]
            busy = (*movement.added, movement.before[0])
            if all(copies[broker] < copies_max for broker in busy) and all(
                room.fits(current, broker) for broker in movement.added
            ):
                room.count(current, movement.added, 1)
                copies.update(busy)
                chosen.append(movement)
            else:
                left.append(movement)
        if not chosen:
            break
        for movement in chosen:
            room.count(state.partitions[movement.partition], movement.removed, -1)
        steps.append(Step(tuple(chosen)))
        waiting = left
    # Movements that only change the leader copy nothing, so they are a single step at the end.
    leading = tuple(movement for movement in movements if not movement.added)
    if leading:
        steps.append(Step(leading))
    return Steps(tuple(steps), tuple(waiting))


def _fullest(room: _Room, state: ClusterState, brokers: Iterable[int]) -> float:
    return max((room.fullness(state.brokers.get(broker_id)) for broker_id in brokers), default=0.0)


def seconds_of(step: Step, bytes_per_second: float) -> float:
    """How long a step takes if every broker receives, and sends, at most `bytes_per_second`."""
    received: defaultdict[int, float] = defaultdict(float)
    sent: defaultdict[int, float] = defaultdict(float)
    for movement in step.movements:
        for broker in movement.added:
            received[broker] += movement.size_bytes / len(movement.added)
        sent[movement.before[0]] += movement.size_bytes
    return max([*received.values(), *sent.values()], default=0) / bytes_per_second
