"""Followers learn the high watermark soon, because one of them may be the next leader."""

from __future__ import annotations

from ottla.replica.follower_fetch_loop import COMMIT_WAIT_MS
from ottla.replica.follower_serving import tell_followers
from ottla.wire.messages.fetch import FetchRequest
from tests.support.replica_cluster import ReplicaCluster


def waits_ms(cluster: ReplicaCluster) -> list[int]:
    """The waits that the fetches of the follower ask for."""
    return [request.max_wait_ms for _, _, request in cluster.requests if isinstance(request, FetchRequest)]


def test_the_high_watermark_follows_with_the_next_answer(pair: ReplicaCluster) -> None:
    pair.create_topic()
    pair[1].produce("a")
    pair.run()
    assert (pair[1].partition().high_watermark, pair[2].partition().high_watermark) == (1, 0)
    pair.run(COMMIT_WAIT_MS)
    assert pair[2].partition().high_watermark == 1
    assert waits_ms(pair)[-2:] == [COMMIT_WAIT_MS, 500]


def test_a_leader_that_leaves_tells_the_high_watermark_at_once(pair: ReplicaCluster) -> None:
    pair.create_topic()
    pair[1].produce("a")
    pair.run()
    tell_followers(pair[1].replicas.partitions())
    pair.run()
    assert pair[2].partition().high_watermark == 1


def test_an_interrupted_fetch_is_repeated_with_its_short_wait(pair: ReplicaCluster) -> None:
    """A new topic interrupts the fetch that waits for the high watermark."""
    pair.create_topic()
    pair.run(1_000)
    pair[1].produce("a")
    pair.run()
    before = len(waits_ms(pair))
    pair.create_topic("other")
    pair.run()
    assert waits_ms(pair)[before:] == [COMMIT_WAIT_MS]
