"""Markers: their target brokers, retries, and when the coordinator gives them up."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.wire.messages import metadata_records as r
from tests.support.transaction_path import Producer, TransactionPath, Written

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))
NONE = ErrorCode.NONE


def begun(path: TransactionPath, name: str, *partitions: TopicPartition) -> Producer:
    producer = Producer(path, name)
    producer.init()
    assert producer.add(*partitions) is NONE
    return producer


def test_markers_for_one_broker_travel_together(path: TransactionPath) -> None:
    path.leaders.moved = {T1: 2, T2: 2}
    producers = [begun(path, f"x{number}", T0, T1, T2) for number in range(5)]
    for producer in producers:
        producer.begin_end(commits=True)
    path.run()
    assert {path.status(committing.transactional_id) for committing in producers} == {"CompleteCommit"}
    # Two shards settle one after the other, each with its own markers.
    assert sorted(node_id for node_id, _ in path.leaders.requests) in ([1, 2], [1, 1, 2, 2])
    by_node = {node_id: [] for node_id in (1, 2)}  # type: ignore[var-annotated]
    for node_id, request in path.leaders.requests:
        by_node[node_id] += [topic.partition_indexes for marker in request.markers for topic in marker.topics]
    assert by_node[1] == [[0]] * 5
    assert [sorted(indexes) for indexes in by_node[2]] == [[1, 2]] * 5
    assert len(path.leaders.written) == 15


def test_a_marker_says_who_coordinates_and_how(path: TransactionPath) -> None:
    begun(path, "x", T0).commit()
    first = Producer(path, "y", version=1)
    first.init()
    first.add(T1)
    first.commit()
    (_, second_version), (_, first_version) = path.leaders.requests
    (marker,) = second_version.markers
    assert (marker.transaction_version, marker.coordinator_epoch, marker.producer_epoch) == (2, 0, 1)
    (marker,) = first_version.markers
    assert (marker.transaction_version, marker.coordinator_epoch, marker.producer_epoch) == (0, 0, 0)


def test_what_comes_while_a_request_is_on_its_way_goes_with_the_next(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    first = begun(path, "x0", T0)
    others = [begun(path, f"x{number}", T0) for number in range(1, 6)]
    first.commit()
    for producer in others:
        producer.commit()
    assert len(path.leaders.requests) == 1
    path.leaders.silent.clear()
    path.leaders.release()
    path.run()
    assert len(path.leaders.requests) == 2
    assert len(path.leaders.requests[1][1].markers) == 5
    assert {path.status(committing.transactional_id) for committing in (first, *others)} == {"CompleteCommit"}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        pytest.param(30_000, id="an error of a newer broker"),
    ],
)
def test_a_refused_marker_is_sent_again_and_only_that_one(path: TransactionPath, code: int) -> None:
    path.leaders.refusals[T1] = [code, code]
    producer = begun(path, "x", T0, T1)
    producer.commit()
    assert path.status("x") == "PrepareCommit"
    path.advance(10)
    assert path.status("x") == "PrepareCommit"
    path.advance(20)
    assert path.status("x") == "CompleteCommit"
    assert path.leaders.written == [
        Written(T0, producer.producer_id, 1, True),
        Written(T1, producer.producer_id, 1, True),
    ]


def test_a_marker_follows_the_leader(path: TransactionPath) -> None:
    path.leaders.unreachable.add(1)
    producer = begun(path, "x", T0)
    producer.commit()
    path.advance(500)
    assert path.status("x") == "PrepareCommit"
    path.leaders.moved[T0] = -1
    path.advance(2_000)
    tries = len(path.leaders.requests)
    path.advance(5_000)
    assert len(path.leaders.requests) == tries, "a partition without a leader is asked about"
    path.leaders.moved[T0] = 3
    path.advance(1_000)
    assert path.status("x") == "CompleteCommit"
    assert path.leaders.requests[-1][0] == 3


def test_pauses_grow_up_to_a_second(path: TransactionPath) -> None:
    path.leaders.unreachable.add(1)
    begun(path, "x", T0).commit()
    path.advance(10_000)
    assert 10 < len(path.leaders.requests) < 20


def test_an_answer_that_leaves_a_partition_out_is_not_believed(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    begun(path, "x", T0, T1).commit()
    _, response = path.leaders.held[0]
    del response.markers[0].topics[0].partitions[1]
    path.leaders.silent.clear()
    path.leaders.release()
    path.run()
    assert path.status("x") == "PrepareCommit"
    path.advance(10)
    assert path.status("x") == "CompleteCommit"


def test_a_deleted_topic_needs_no_marker(path: TransactionPath) -> None:
    topic_id = path.create_topic("doomed")
    path.leaders.unreachable.add(1)
    begun(path, "x", TopicPartition("doomed", 0), T0).commit()
    path.commit(r.RemoveTopicRecord(topic_id=topic_id))
    path.leaders.unreachable.clear()
    path.advance(10)
    assert path.status("x") == "CompleteCommit"
    assert [batch.partition for batch in path.leaders.written] == [T0]


def test_a_partition_that_can_never_take_a_marker_does_not_hold_up_the_rest(path: TransactionPath) -> None:
    path.leaders.refusals[T0] = [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
    begun(path, "x", T0, T1).commit()
    assert path.status("x") == "CompleteCommit"


def test_a_former_coordinator_sends_no_more_markers(path: TransactionPath) -> None:
    path.leaders.unreachable.add(1)
    begun(path, "x", T0).commit()
    shard = path.transactions.runtime.shard_of("x")
    shard.close()
    path.leaders.unreachable.clear()
    sent = len(path.leaders.requests)
    path.advance(10_000)
    assert len(path.leaders.requests) == sent
    assert not len(path.transactions._markers)


def test_an_answer_that_comes_after_the_shard_is_gone_changes_nothing(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    begun(path, "x", T0).commit()
    shard = path.transactions.runtime.shard_of("x")
    shard.reload()
    path.leaders.silent.clear()
    path.leaders.release()
    path.run()
    assert path.status("x") == "PrepareCommit"
    path.advance(1)
    assert path.status("x") == "CompleteCommit"
    assert len(path.leaders.requests) == 2


def test_two_parts_of_one_marker_for_the_same_broker_go_one_after_the_other(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    path.leaders.moved[T1] = 2
    path.leaders.refusals[T1] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    begun(path, "first", T2).commit()
    begun(path, "x", T0, T1).commit()
    # The first request is still not answered when the second partition moves to the same broker.
    path.leaders.moved.clear()
    path.advance(20)
    path.leaders.silent.clear()
    path.leaders.release()
    path.run()
    assert path.status("x") == "CompleteCommit"
    assert sorted(batch.partition for batch in path.leaders.written if batch.partition != T2) == [T0, T1]


def test_a_marker_that_is_sent_again_is_finished_once(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    producer = begun(path, "x", T0)
    producer.commit()
    path.transactions._send_markers(path.shard_of("x"), path.transaction("x"))
    path.run()
    path.leaders.silent.clear()
    path.leaders.release()
    path.run()
    assert path.status("x") == "CompleteCommit"
    assert not len(path.transactions._markers)
