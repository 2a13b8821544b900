"""The replicas of a cluster while a plan is made: every applied move updates the loads of the brokers."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ottla.balance.state import ClusterState
from ottla.model.ids import TopicPartition

__all__ = ["Assignment", "BrokerLoad", "Transfer"]


class Transfer(NamedTuple):
    """A replica of a partition, or only its leadership, goes from `source` to `target`."""

    partition: TopicPartition
    source: int
    target: int
    is_lead: bool = False

    @property
    def back(self) -> Transfer:
        return self._replace(source=self.target, target=self.source)


class BrokerLoad:
    """The load of a broker."""

    __slots__ = ("disk", "in_rate", "leaders", "out_rate", "replicas")

    def __init__(self) -> None:
        self.replicas = 0
        self.leaders = 0
        self.disk = 0.0
        self.in_rate = 0.0
        self.out_rate = 0.0


class Assignment:
    """Owns the replica lists. The first replica of a list is the leader, as it will be after the plan."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.replicas: dict[TopicPartition, list[int]] = {}
        self.loads: dict[int, BrokerLoad] = {broker_id: BrokerLoad() for broker_id in state.brokers}
        self.held: dict[int, set[TopicPartition]] = {broker_id: set() for broker_id in state.brokers}
        self.of_topic: Counter[tuple[int, str]] = Counter()
        for partition, current in state.partitions.items():
            self.replicas[partition] = list(current.replicas)
            for place, broker_id in enumerate(current.replicas):
                self._add(partition, broker_id, leads=place == 0)

    @property
    def targets(self) -> list[int]:
        """Brokers that may get replicas."""
        return [broker_id for broker_id, broker in self.state.brokers.items() if broker.takes_replicas]

    def leader(self, partition: TopicPartition) -> int:
        return self.replicas[partition][0]

    def out_rate(self, partition: TopicPartition) -> float:
        """The rate that the leader sends: the rate of consumers, and for every follower the rate of producers."""
        current = self.state.partitions[partition]
        return current.out_rate + current.in_rate * (len(self.replicas[partition]) - 1)

    def move(self, partition: TopicPartition, source: int, target: int) -> None:
        """A replica changes its broker, and keeps its place in the list."""
        replicas = self.replicas[partition]
        place = replicas.index(source)
        assert target not in replicas
        self._remove(partition, source, leads=place == 0)
        replicas[place] = target
        self._add(partition, target, leads=place == 0)

    def lead(self, partition: TopicPartition, broker_id: int) -> None:
        """`broker_id` becomes the leader, and the former leader gets its place in the list."""
        replicas = self.replicas[partition]
        old = replicas[0]
        out_rate = self.out_rate(partition)
        replicas[replicas.index(broker_id)] = old
        replicas[0] = broker_id
        for holder, sign in ((old, -1), (broker_id, 1)):
            if holder in self.loads:
                self.loads[holder].leaders += sign
                self.loads[holder].out_rate += sign * out_rate

    def apply(self, transfer: Transfer) -> None:
        if transfer.is_lead:
            self.lead(transfer.partition, transfer.target)
        else:
            self.move(transfer.partition, transfer.source, transfer.target)

    def cost(self, transfer: Transfer) -> float:
        """The bytes by which the plan grows; less than 0 if it shrinks, because a replica goes back."""
        if transfer.is_lead:
            return 0.0
        current = self.state.partitions[transfer.partition]
        return current.size_bytes * (
            (transfer.target not in current.replicas) - (transfer.source not in current.replicas)
        )

    def racks(self, partition: TopicPartition, *, without: int | None = None) -> Counter[str]:
        """How many replicas are in each rack; brokers without a rack do not count."""
        return Counter(
            rack
            for broker_id in self.replicas[partition]
            if broker_id != without
            and (broker := self.state.brokers.get(broker_id)) is not None
            and (rack := broker.rack) is not None
        )

    def machines(self, partition: TopicPartition, *, without: int | None = None) -> Counter[str | int]:
        """How many replicas are on each machine; a broker with an unknown machine counts as a machine."""
        return Counter(self.machine(broker_id) for broker_id in self.replicas[partition] if broker_id != without)

    def machine(self, broker_id: int) -> str | int:
        broker = self.state.brokers.get(broker_id)
        return broker_id if broker is None or broker.host is None else broker.host

    def _add(self, partition: TopicPartition, broker_id: int, *, leads: bool) -> None:
        # A replica list may contain a broker that is no longer in the cluster.
        if broker_id in self.loads:
            self.held[broker_id].add(partition)
            self._count(partition, broker_id, 1, leads=leads)

    def _remove(self, partition: TopicPartition, broker_id: int, *, leads: bool) -> None:
        if broker_id in self.loads:
            self.held[broker_id].discard(partition)
            self._count(partition, broker_id, -1, leads=leads)

    def _count(self, partition: TopicPartition, broker_id: int, sign: int, *, leads: bool) -> None:
        current, load = self.state.partitions[partition], self.loads[broker_id]
        load.replicas += sign
        load.disk += sign * current.size_bytes
        load.in_rate += sign * current.in_rate
        self.of_topic[(broker_id, partition.topic)] += sign
        if leads:
            load.leaders += sign
            load.out_rate += sign * self.out_rate(partition)
