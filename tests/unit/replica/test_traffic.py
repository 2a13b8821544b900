"""What replication sends between brokers: each follower gets every byte once, and next to nothing besides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.replica_cluster import ReplicaCluster

BATCHES = 40
TEXT = "x" * 10_000
# Headers of responses, and the next request after the last record.
OVERHEAD_MAX = 0.02


@pytest.mark.parametrize("replication_factor", [1, 2, 3, 5])
def test_traffic_is_what_came_in_for_each_follower(
    make: Callable[..., ReplicaCluster], replication_factor: int
) -> None:
    """10 MB/s in: 0, 10, 20 and 40 MB/s between brokers with 1, 2, 3 and 5 replicas."""
    nodes = tuple(range(1, replication_factor + 1))
    cluster = make(nodes=nodes)
    cluster.create_topic(replicas=nodes)
    sent: list[int] = []

    def count(data: bytearray) -> bytearray:
        sent.append(len(data))
        return data

    cluster.on_response_bytes = count
    for _ in range(BATCHES):
        cluster[1].produce(TEXT)
        cluster.run(100)
    came_in = len(cluster[1].bytes())
    assert came_in > BATCHES * len(TEXT)
    assert [cluster[node_id].bytes() == cluster[1].bytes() for node_id in nodes] == [True] * replication_factor
    followers = replication_factor - 1
    assert cluster[1].partition().counters.replica_bytes_out == followers * came_in
    assert followers * came_in <= sum(sent) <= followers * came_in * (1 + OVERHEAD_MAX)
