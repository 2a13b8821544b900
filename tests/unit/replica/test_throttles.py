"""Replicas that are copied no faster than allowed (KIP-73)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from ottla.replica.follower_fetch_loop import ReplicaFetcher
from ottla.wire.messages import metadata_records as r
from tests.support.replica_cluster import ReplicaCluster

Make = Callable[..., ReplicaCluster]

RECORD = "x" * 100_000
RECORDS = 100


def filled(make: Make, *, isr: tuple[int, ...] = (1,), throttled: dict[str, str], **properties: str) -> ReplicaCluster:
    """Ten megabytes on the leader, of which the follower has nothing yet."""
    cluster = make(**{"replica.fetch.max.bytes": "200000", **properties})
    cluster.cut_off(2)
    cluster.create_topic(isr=isr, **throttled)
    for _ in range(RECORDS):
        cluster[1].produce(RECORD)
    cluster.reconnect()
    return cluster


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("named", ["*", "0:1,0:2", "3:1,0:1,0:2"])
def test_a_throttled_replica_is_copied_at_the_rate(make: Make, side: str, named: str) -> None:
    cluster = filled(
        make,
        throttled={f"{side}.replication.throttled.replicas": named},
        **{f"{side}.replication.throttled.rate": "1000000"},
    )
    cluster.run(4_000)
    assert 25 <= cluster[2].log().log_end_offset <= 55
    cluster.run(10_000)
    assert cluster[2].log().log_end_offset == RECORDS
    assert cluster[2].bytes() == cluster[1].bytes()
    assert cluster.truth().isr == (1, 2)


def test_a_follower_takes_small_portions_at_even_intervals(make: Make) -> None:
    """The bytes of a whole second at once would keep both brokers from serving producers."""
    cluster = filled(
        make,
        throttled={"follower.replication.throttled.replicas": "*"},
        **{"follower.replication.throttled.rate": "1000000", "replica.fetch.max.bytes": "10000000"},
    )
    cluster.run(50)
    ends = [cluster[2].log().log_end_offset]
    for _ in range(20):
        cluster.run(200)
        ends.append(cluster[2].log().log_end_offset)
    # Two records are 200 kB; a portion of 256 kB has two of them.
    assert 1 <= ends[0] <= 3
    assert all(0 <= later - earlier <= 4 for earlier, later in itertools.pairwise(ends))
    assert 35 <= ends[-1] <= 45


def test_a_throttled_partition_interrupts_no_request(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption costs the other partitions of the leader a new connection, and producers wait for them."""
    interruptions: list[object] = []
    cluster = filled(
        make,
        throttled={"follower.replication.throttled.replicas": "*"},
        **{"follower.replication.throttled.rate": "1000000"},
    )
    cluster.create_topic("free")
    cluster.run(500)
    monkeypatch.setattr(ReplicaFetcher, "_abandon_request", lambda self, _: interruptions.append(self))
    cluster.run(4_000)
    assert 35 <= cluster[2].log().log_end_offset <= 55
    assert interruptions == []


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("named", ["", "1:1,1:2", "0:9"])
def test_replicas_that_are_not_named_are_not_held_back(make: Make, side: str, named: str) -> None:
    cluster = filled(
        make,
        throttled={f"{side}.replication.throttled.replicas": named},
        **{f"{side}.replication.throttled.rate": "1000"},
    )
    cluster.run(2_000)
    assert cluster[2].log().log_end_offset == RECORDS


def test_a_replica_in_sync_is_not_held_back(make: Make) -> None:
    cluster = filled(
        make,
        isr=(1, 2),
        throttled={"leader.replication.throttled.replicas": "*"},
        **{"leader.replication.throttled.rate": "1000"},
    )
    cluster.run(2_000)
    assert cluster[2].log().log_end_offset == RECORDS


def test_the_throttle_is_taken_away_while_it_holds(make: Make) -> None:
    cluster = filled(
        make,
        throttled={"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"},
        **{"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"},
    )
    cluster.run(3_000)
    assert cluster[2].log().log_end_offset < 10
    cluster.commit(
        *(
            r.ConfigRecord(resource_type=2, resource_name="t", name=f"{side}.replication.throttled.replicas", value="")
            for side in ("leader", "follower")
        )
    )
    # The pause that it is in lasts eleven windows at most.
    cluster.run(12_000)
    assert cluster[2].log().log_end_offset == RECORDS


def test_other_partitions_go_on(make: Make) -> None:
    cluster = filled(
        make,
        throttled={"follower.replication.throttled.replicas": "*"},
        **{"follower.replication.throttled.rate": "1000"},
    )
    cluster.run(1_000)
    cluster.create_topic("free")
    cluster.run(200)
    answer = cluster[1].produce("a", topic="free", acks=-1)
    cluster.run(200)
    assert answer.result().error_code == 0
    assert cluster[2].log().log_end_offset < 10
