"""A leader that stops in order tells its followers the high watermark before its leaderships move."""

from __future__ import annotations

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.cluster import Cluster
from ottla.client.producer import Producer, ProducerSettings
from ottla.replica.partition import Partition
from tests.sim.balance import World


@pytest.mark.parametrize("seed", range(3))
def test_the_next_leader_knows_what_is_committed(seed: int) -> None:
    world = World(seed, nodes=3, racks=1)

    async def produce(cluster: Cluster) -> None:
        await AdminClient(cluster).topics.create([NewTopic(name="t", assignment={0: [2, 3, 1]})])
        async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
            await producer.send_and_wait("t", b"committed", partition=0)

    def partition_of(node_id: int) -> Partition:
        broker = world.cluster.nodes[node_id].broker
        assert broker is not None
        return broker.replicas.find("t", 0)

    world.do("produce", produce)
    assert partition_of(2).high_watermark == 1
    assert partition_of(3).high_watermark == 0
    world.cluster.nodes[2].stop()
    assert world.run(10, lambda: partition_of(3).leader_state is not None)
    assert partition_of(3).high_watermark == 1
    world.close()
