"""Random clusters for the planner."""

from __future__ import annotations

import random
from dataclasses import replace

from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.model.ids import TopicPartition

MEBIBYTE = 1024.0 * 1024


def random_cluster(seed: int) -> ClusterState:
    """Three to twelve brokers in one to four racks, with partitions of all sizes placed without care."""
    generator = random.Random(seed)
    count = generator.randint(3, 12)
    racks = generator.randint(1, 4)
    factor = generator.randint(1, min(3, count))
    total = 0.0
    partitions = {}
    favourites = generator.sample(range(1, count + 1), max(factor, count // 2))
    for topic in range(generator.randint(3, 15)):
        for number in range(generator.randint(20, 60)):
            pool = favourites if generator.random() < 0.5 else range(1, count + 1)
            replicas = tuple(generator.sample(list(pool), factor))
            size = generator.choice((0.1, 1, 5, 20)) * generator.random() * MEBIBYTE
            total += size * factor
            partitions[TopicPartition(f"t{topic}", number)] = PartitionState(
                replicas=replicas,
                leader=replicas[0],
                size_bytes=size,
                in_rate=generator.random() * 1_000,
                out_rate=generator.random() * 3_000,
            )
    brokers = {
        broker_id: BrokerState(
            broker_id=broker_id,
            rack=f"r{broker_id % racks}" if racks > 1 else None,
            disk_bytes=total / count * generator.uniform(2.5, 6) + 100 * MEBIBYTE,
        )
        for broker_id in range(1, count + 1)
    }
    return ClusterState(brokers=brokers, partitions=partitions)


def drained(state: ClusterState, broker_id: int) -> ClusterState:
    brokers = dict(state.brokers)
    brokers[broker_id] = replace(brokers[broker_id], is_draining=True)
    return ClusterState(brokers=brokers, partitions=state.partitions)


def cluster_of(seed: int) -> ClusterState:
    """A random cluster; a third of them lose a broker. Three replicas on three brokers would have nowhere to go."""
    state = random_cluster(seed)
    return drained(state, 1) if seed % 3 == 0 and len(state.brokers) > 3 else state


def on_machines(state: ClusterState, seed: int) -> ClusterState:
    """The same brokers, two or three on each machine; a machine is in one rack."""
    generator = random.Random(seed)
    size = generator.choice((2, 3))
    racks = generator.choice((0, 0, 2, 3))
    brokers = {}
    for broker_id, broker in state.brokers.items():
        machine = (broker_id - 1) // size
        brokers[broker_id] = replace(broker, host=f"h{machine}", rack=f"r{machine % racks}" if racks else None)
    return ClusterState(brokers=brokers, partitions=state.partitions)
