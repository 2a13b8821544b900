"""Transactions on a leader and its follower: markers wait for followers, and the next leader has the same state."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import fetch, write_txn_markers
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.storage.log import PartitionLog
from ottla.storage.lookups import aborted_transactions
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.data_path import batch
from tests.support.replica_cluster import ReplicaCluster, ReplicaNode

READ_COMMITTED = 1


def write(node: ReplicaNode, text: str, *, producer_id: int = 7, sequence: int = 0) -> None:
    """Writes a batch as if the coordinator had confirmed its transaction."""
    built = batch(text, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    node.partition().append_built(bytearray(built), now_ms=1_700_000_000_000)


def end(node: ReplicaNode, *, commit: bool, producer_id: int = 7) -> Deferred[Any]:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    answer: Deferred[Any] = node.call(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 2)
    return answer


def code(answer: Deferred[Any]) -> ErrorCode:
    return ErrorCode(answer.result().markers[0].topics[0].partitions[0].error_code)


def producers(log: PartitionLog) -> list[tuple[int, ...]]:
    return [
        (
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.coordinator_epoch,
            entry.current_transaction_first_offset,
        )
        for entry in log.active_producers()
    ]


def aborted(node: ReplicaNode, offset: int = 0) -> tuple[int, list[tuple[int, int]]]:
    """The last stable offset and the aborted transactions of a fetch response."""
    topic = FetchTopic(
        topic="t", partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    )
    response = node.call(fetch, FetchRequest(isolation_level=READ_COMMITTED, max_bytes=1 << 20, topics=[topic]), 11)
    data = response.responses[0].partitions[0]
    return data.last_stable_offset, [
        (transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions
    ]


@pytest.fixture
def ready(pair: ReplicaCluster) -> ReplicaCluster:
    pair.create_topic(replicas=(1, 2))
    pair.run(1_000)
    for node_id in (1, 2):
        broker = pair[node_id].broker
        broker.world = pair.virtual.world
    return pair


def test_a_marker_is_answered_when_followers_have_it(ready: ReplicaCluster) -> None:
    write(ready[1], "a")
    ready.run(1_000)
    ready.cut_off(2)
    answer = end(ready[1], commit=True)
    ready.run(10)
    assert not answer.done
    assert ready[1].partition().last_stable_offset == 0
    ready.reconnect()
    ready.run(5_000)
    assert code(answer) is ErrorCode.NONE
    assert ready[1].partition().last_stable_offset == 2


def test_a_marker_for_a_follower_goes_elsewhere(ready: ReplicaCluster) -> None:
    assert code(end(ready[2], commit=True)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_markers_that_wait_are_told_that_the_leader_has_changed(ready: ReplicaCluster) -> None:
    write(ready[1], "a")
    ready.run(1_000)
    ready.cut_off(2)
    answer = end(ready[1], commit=True)
    ready.reconnect()
    ready.elect(2)
    ready.run(100)
    assert code(answer) in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)


def test_the_next_leader_knows_what_the_last_one_knew(ready: ReplicaCluster) -> None:
    leader = ready[1]
    write(leader, "gone")
    write(leader, "kept", producer_id=8)
    end(leader, commit=False)
    end(leader, commit=True, producer_id=8)
    write(leader, "open", producer_id=9)
    ready.run(5_000)
    before = aborted(leader)
    assert before == (4, [(7, 0)])
    assert producers(ready[2].log()) == producers(leader.log())
    ready.elect(2)
    ready.run(5_000)
    assert aborted(ready[2]) == before
    answer = end(ready[2], commit=False, producer_id=9)
    ready.run(5_000)
    assert code(answer) is ErrorCode.NONE
    assert aborted(ready[2]) == (6, [(7, 0), (9, 4)])
    assert producers(ready[2].log()) == producers(leader.log())


def test_a_marker_that_was_cut_off_is_forgotten(ready: ReplicaCluster) -> None:
    """The old leader wrote a marker that no other replica has: the transaction has to be open again."""
    write(ready[1], "a")
    ready.run(1_000)
    ready.cut_off(1)
    end(ready[1], commit=True)
    ready.fence(1)
    ready.elect(2, isr=(2,))
    ready.run(1_000)
    answer = end(ready[2], commit=False)
    ready.run(1_000)
    assert code(answer) is ErrorCode.NONE
    ready.reconnect()
    ready.run(60_000)
    assert ready[1].values()[0] == ready[2].values()[0] == "a"
    aborted = aborted_transactions(ready[1].log().segments, 0, 10)
    assert aborted == aborted_transactions(ready[2].log().segments, 0, 10)
    assert [entry.first_offset for entry in aborted] == [0]
