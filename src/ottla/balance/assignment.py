"""The replicas of a cluster while a plan is made: moves are applied one by one, and loads follow."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ottla.balance.state import ClusterState
from ottla.model.ids import TopicPartition

__all__ = ["Assignment", "BrokerLoad", "Transfer"]


class Transfer(NamedTuple):
    """A replica of a partition goes from one broker to another, or only its leadership does."""

    partition: TopicPartition
    source: int
    target: int
    is_lead: bool = False

    @property
    def back(self) -> Transfer:
        return self._replace(source=self.target, target=self.source)


class BrokerLoad:
    """What one broker carries."""

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
        for partition, one in state.partitions.items():
            self.replicas[partition] = list(one.replicas)
            for place, broker_id in enumerate(one.replicas):
                self._add(partition, broker_id, leads=place == 0)

    @property
    def targets(self) -> list[int]:
        """Brokers that may get replicas."""
        return [broker_id for broker_id, broker in self.state.brokers.items() if broker.takes_replicas]

    def leader(self, partition: TopicPartition) -> int:
        return self.replicas[partition][0]

    def out_rate(self, partition: TopicPartition) -> float:
        """What the leader sends: to consumers, and to each follower what producers send."""
        one = self.state.partitions[partition]
        return one.out_rate + one.in_rate * (len(self.replicas[partition]) - 1)

    def move(self, partition: TopicPartition, source: int, target: int) -> None:
        """A replica changes its broker, and keeps its place in the list."""
        replicas = self.replicas[partition]
        place = replicas.index(source)
        assert target not in replicas
        self._remove(partition, source, leads=place == 0)
        replicas[place] = target
        self._add(partition, target, leads=place == 0)

    def lead(self, partition: TopicPartition, broker_id: int) -> None:
        """Another replica becomes the leader, and the leader gets its place in the list."""
        replicas = self.replicas[partition]
        old = replicas[0]
        out_rate = self.out_rate(partition)
        replicas[replicas.index(broker_id)] = old
        replicas[0] = broker_id
        for one, sign in ((old, -1), (broker_id, 1)):
            if one in self.loads:
                self.loads[one].leaders += sign
                self.loads[one].out_rate += sign * out_rate

    def apply(self, transfer: Transfer) -> None:
        if transfer.is_lead:
            self.lead(transfer.partition, transfer.target)
        else:
            self.move(transfer.partition, transfer.source, transfer.target)

    def cost(self, transfer: Transfer) -> float:
        """The bytes by which the plan grows; less than 0 if it shrinks, because a replica goes back."""
        if transfer.is_lead:
            return 0.0
        one = self.state.partitions[transfer.partition]
        return one.size_bytes * ((transfer.target not in one.replicas) - (transfer.source not in one.replicas))

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
        """How many replicas are on each machine; a broker whose machine is unknown has one of its own."""
        return Counter(self.machine(one) for one in self.replicas[partition] if one != without)

    def machine(self, broker_id: int) -> str | int:
        broker = self.state.brokers.get(broker_id)
        return broker_id if broker is None or broker.host is None else broker.host

    def _add(self, partition: TopicPartition, broker_id: int, *, leads: bool) -> None:
        # A replica list may name a broker that the cluster does not know any more.
        if broker_id in self.loads:
            self.held[broker_id].add(partition)
            self._count(partition, broker_id, 1, leads=leads)

    def _remove(self, partition: TopicPartition, broker_id: int, *, leads: bool) -> None:
        if broker_id in self.loads:
            self.held[broker_id].discard(partition)
            self._count(partition, broker_id, -1, leads=leads)

    def _count(self, partition: TopicPartition, broker_id: int, sign: int, *, leads: bool) -> None:
        one, load = self.state.partitions[partition], self.loads[broker_id]
        load.replicas += sign
        load.disk += sign * one.size_bytes
        load.in_rate += sign * one.in_rate
        self.of_topic[(broker_id, partition.topic)] += sign
        if leads:
            load.leaders += sign
            load.out_rate += sign * self.out_rate(partition)
