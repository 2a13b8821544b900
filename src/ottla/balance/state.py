"""A cluster as the planner sees it: brokers with their capacity, partitions with their size and traffic. Values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.model.ids import TopicPartition

__all__ = ["BrokerState", "ClusterState", "PartitionState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    broker_id: int
    rack: str | None = None
    # The host name that the broker advertises. Brokers with the same host name are processes of the same machine, as
    # for the placement of new partitions; None is a machine of its own.
    host: str | None = None
    # Replicas of a broker that is dead or to be emptied have to go elsewhere.
    is_alive: bool = True
    is_draining: bool = False
    disk_bytes: float = math.inf
    in_rate_max: float = math.inf
    out_rate_max: float = math.inf
    replicas_max: float = math.inf
    # Partitions whose directory on this broker has failed.
    failed_replicas: frozenset[TopicPartition] = frozenset()

    @property
    def takes_replicas(self) -> bool:
        return self.is_alive and not self.is_draining


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    # The preferred leader is first.
    replicas: tuple[int, ...]
    # -1 without a leader.
    leader: int
    size_bytes: float = 0.0
    # Bytes per second from producers and to consumers.
    in_rate: float = 0.0
    out_rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    brokers: Mapping[int, BrokerState]
    partitions: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)

    def must_move(self, partition: TopicPartition, broker_id: int) -> bool:
        """Whether a replica cannot stay where it is."""
        broker = self.brokers.get(broker_id)
        return broker is None or not broker.takes_replicas or partition in broker.failed_replicas
