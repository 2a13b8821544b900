"""Consumers that read from the replica of their rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.apis import fetch
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.replica.nearest import RACK_AWARE_SELECTOR
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tests.support.data_path import values
from tests.support.replica_cluster import ReplicaCluster, ReplicaNode

Make = Callable[..., ReplicaCluster]


@pytest.fixture
def three(make: Make) -> ReplicaCluster:
    cluster = make(nodes=(1, 2, 3), replica_selector_class=RACK_AWARE_SELECTOR)
    cluster.create_topic(replicas=(1, 2, 3))
    cluster.run(500)
    return cluster


def ask(
    node: ReplicaNode, offset: int, *, rack: str = "", version: int = 12, leader_epoch: int = -1, max_wait_ms: int = 0
) -> Any:
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=leader_epoch
    )
    request = FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[wanted])],
        max_bytes=1 << 20,
        min_bytes=1,
        max_wait_ms=max_wait_ms,
        rack_id=rack,
    )
    return node.call(fetch, request, version)


def read(node: ReplicaNode, offset: int, **fields: Any) -> PartitionData:
    return ask(node, offset, **fields).responses[0].partitions[0]


class TestChoosing:
    def test_the_leader_names_the_follower_of_the_rack(self, three: ReplicaCluster) -> None:
        three[1].produce("a", acks=-1)
        three.run(500)
        data = read(three[1], 0, rack="rack-3")
        assert (data.error_code, data.preferred_read_replica, values(data.records)) == (0, 3, [])
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (1, 1, 0)

    def test_it_is_told_at_once(self, three: ReplicaCluster) -> None:
        assert read(three[1], 0, rack="rack-2", max_wait_ms=500).preferred_read_replica == 2

    @pytest.mark.parametrize("rack", ["", "rack-1", "rack-elsewhere"])
    def test_the_leader_is_read_if_no_replica_is_nearer(self, three: ReplicaCluster, rack: str) -> None:
        three[1].produce("a", acks=-1)
        three.run(500)
        data = read(three[1], 0, rack=rack)
        assert (data.preferred_read_replica, values(data.records)) == (-1, ["a"])

    def test_a_follower_out_of_sync_is_not_named(self, three: ReplicaCluster) -> None:
        three.cut_off(3)
        three.elect(1, isr=(1, 2))
        three[1].produce("a")
        three.run(10)
        assert read(three[1], 0, rack="rack-3").preferred_read_replica == -1

    def test_a_follower_that_lacks_the_offset_is_not_named(self, three: ReplicaCluster) -> None:
        three.cut_off(3)
        three[1].produce("a")
        three.run(10)
        assert read(three[1], 1, rack="rack-3").preferred_read_replica == -1
        assert read(three[1], 1, rack="rack-2").preferred_read_replica == 2

    def test_a_session_at_the_end_is_told_too(self, three: ReplicaCluster) -> None:
        topic_id = three.image.topics.by_name["t"].topic_id
        wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        opened = three[1].call(fetch, FetchRequest(topics=[wanted], session_epoch=0, rack_id="elsewhere"), 13)
        again = FetchRequest(session_id=opened.session_id, session_epoch=1, rack_id="rack-2", max_wait_ms=500)
        answer = three[1].call(fetch, again, 13)
        assert answer.responses[0].partitions[0].preferred_read_replica == 2

    def test_without_the_selector_racks_do_not_matter(self, make: Make) -> None:
        cluster = make(nodes=(1, 2))
        cluster.create_topic()
        cluster.run(500)
        assert read(cluster[1], 0, rack="rack-2").preferred_read_replica == -1


class TestReadingFromAFollower:
    def test_up_to_its_high_watermark(self, three: ReplicaCluster) -> None:
        three[1].produce("a", acks=-1)
        three.run()
        assert three[2].values() == ["a"]
        # The follower has the record, but not yet the high watermark that commits it.
        data = read(three[2], 0)
        assert (data.error_code, data.high_watermark, values(data.records)) == (0, 0, [])
        three.run(500)
        data = read(three[2], 0)
        assert (data.error_code, data.high_watermark, values(data.records)) == (0, 1, ["a"])

    def test_a_parked_reader_wakes_with_the_high_watermark(self, three: ReplicaCluster) -> None:
        poll = ask(three[2], 0, max_wait_ms=500)
        assert isinstance(poll, Deferred)
        three[1].produce("a", acks=-1)
        three.run(1)
        assert not poll.done
        # Not at the end of the follower's long poll: a consumer waits for it.
        three.run(20)
        assert values(poll.result().responses[0].partitions[0].records) == ["a"]

    def test_an_old_consumer_is_sent_away(self, three: ReplicaCluster) -> None:
        assert read(three[2], 0, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_follower_names_no_preferred_replica(self, three: ReplicaCluster) -> None:
        assert read(three[2], 0, rack="rack-3").preferred_read_replica == -1

    def test_epochs_are_checked(self, three: ReplicaCluster) -> None:
        assert read(three[2], 0, leader_epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        three.elect(3)
        three.run()
        assert read(three[2], 0, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_a_new_epoch_is_told_at_once(self, three: ReplicaCluster) -> None:
        poll = ask(three[2], 0, leader_epoch=0, max_wait_ms=500)
        three.elect(3)
        three.run()
        assert poll.result().responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH

    def test_beyond_its_end_is_out_of_range(self, three: ReplicaCluster) -> None:
        assert read(three[2], 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_a_reader_of_what_is_cut_off_is_told(self, three: ReplicaCluster) -> None:
        three.cut_off(2)
        three[2].write("x", "y", epoch=0)
        poll = ask(three[2], 2, max_wait_ms=500)
        assert isinstance(poll, Deferred)
        three.elect(3)
        three.reconnect()
        three.run(50)
        assert poll.result().responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
