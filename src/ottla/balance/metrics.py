"""The metrics of goals: a figure of every broker, and the share of a replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.balance.assignment import Assignment, BrokerLoad, Transfer
from ottla.balance.state import BrokerState
from ottla.model.ids import TopicPartition

__all__ = ["DISK", "LEADERS", "NETWORK_IN", "NETWORK_OUT", "REPLICAS", "Metric"]


class Metric(NamedTuple):
    name: str
    of_broker: Callable[[BrokerLoad], float]
    # The share of a replica of the partition; the last argument is True if the replica leads.
    of_replica: Callable[[Assignment, TopicPartition, bool], float]
    capacity: Callable[[BrokerState], float]

    def of_transfer(self, assignment: Assignment, transfer: Transfer) -> float:
        partition, source, _, is_lead = transfer
        if is_lead:
            return self.of_replica(assignment, partition, True) - self.of_replica(assignment, partition, False)
        return self.of_replica(assignment, partition, assignment.leader(partition) == source)


REPLICAS = Metric("replicas", lambda load: load.replicas, lambda *_: 1.0, lambda broker: broker.replicas_max)
LEADERS = Metric(
    "leaders", lambda load: load.leaders, lambda _a, _p, leads: float(leads), lambda broker: broker.replicas_max
)
DISK = Metric(
    "disk",
    lambda load: load.disk,
    lambda assignment, partition, _: assignment.state.partitions[partition].size_bytes,
    lambda broker: broker.disk_bytes,
)
NETWORK_IN = Metric(
    "network in",
    lambda load: load.in_rate,
    lambda assignment, partition, _: assignment.state.partitions[partition].in_rate,
    lambda broker: broker.in_rate_max,
)
NETWORK_OUT = Metric(
    "network out",
    lambda load: load.out_rate,
    lambda assignment, partition, leads: assignment.out_rate(partition) if leads else 0.0,
    lambda broker: broker.out_rate_max,
)
