"""A crash between any two steps: what was decided is carried out, what was not is as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.runtime import ShardStatus
from ottla.coordinator.txn.ending import decide_complete
from ottla.coordinator.txn.state import RETRY_MS
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.storage.errors import DiskFull
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.transaction_path import STATE_TOPIC, Producer, TransactionPath, Written

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE = ErrorCode.NONE


def turn(path: TransactionPath) -> bool:
    """One callback of the loop; False when there is nothing to do."""
    soon = path.virtual.scheduler._soon
    if not soon:
        return False
    callback, arguments = soon.popleft()
    callback(*arguments)
    return True


def prepared(path: TransactionPath, version: int) -> Producer:
    path.leaders.moved = {T1: 2}
    producer = Producer(path, "x", version=version)
    producer.init()
    assert producer.add(T0, T1) is NONE
    return producer


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("turns", range(12))
def test_a_crash_after_any_turn_of_the_end(path: TransactionPath, version: int, commits: bool, turns: int) -> None:
    producer = prepared(path, version)
    answer = producer.begin_end(commits=commits)
    for _ in range(turns):
        turn(path)
    path.crash()
    answered = answer.done and not answer.result().error_code
    written_before = list(path.leaders.written)
    path.start()
    path.advance(1_000)
    epoch = 1 if version == 2 else 0
    expected = {Written(partition, producer.producer_id, epoch, commits) for partition in (T0, T1)}
    if path.status("x") == "Ongoing":
        assert not answered, "what was answered is decided"
        assert not written_before, "no marker before the decision"
        assert producer.end(commits=not commits) is NONE
        assert len(path.leaders.written) == 2
        return
    assert path.status("x") == ("CompleteCommit" if commits else "CompleteAbort")
    assert set(path.leaders.written) == expected, "each partition has the marker, and no other one"
    # A retry with the client's old epoch gets the new epoch.
    assert producer.end(commits=commits) is NONE
    assert producer.epoch == epoch
    assert producer.add(T0) is NONE


def test_the_turns_above_reach_from_before_the_decision_to_behind_the_end(path: TransactionPath) -> None:
    producer = prepared(path, 2)
    producer.begin_end(commits=True)
    seen = [path.status("x")]
    while turn(path):
        seen.append(path.status("x"))
    assert len(seen) <= 12, "the parameters above have to grow"
    assert list(dict.fromkeys(seen)) == ["PrepareCommit", "CompleteCommit"]


@pytest.mark.parametrize("turns", range(12))
def test_a_crash_while_another_instance_fences(path: TransactionPath, turns: int) -> None:
    older = prepared(path, 2)
    newer = Producer(path, "x")
    path.begin(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000))
    for _ in range(turns):
        turn(path)
    path.crash()
    path.start()
    path.advance(1_000)
    while (code := newer.init()) is not NONE:
        assert code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert newer.epoch >= 2
    assert {batch.is_commit for batch in path.leaders.written} == {False}
    assert older.add(T0) is ErrorCode.PRODUCER_FENCED
    assert older.commit() is ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_is_still_open_after_a_restart(path: TransactionPath) -> None:
    producer = prepared(path, 2)
    path.stop()
    path.start()
    assert (path.status("x"), path.transaction("x").partitions) == ("Ongoing", {T0, T1})
    assert producer.add(T0, verify=True) is NONE
    assert producer.commit() is NONE
    assert path.status("x") == "CompleteCommit"


def test_an_open_transaction_times_out_after_a_restart(path: TransactionPath) -> None:
    prepared(path, 2)
    path.stop()
    path.start()
    path.advance(71_000)
    assert path.status("x") == "CompleteAbort"


def test_what_was_loaded_is_committed_again_before_markers_go_out(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    prepared(path, 2).commit()
    path.crash()
    path.leaders.requests.clear()
    partition = path.transactions.runtime.partition_of("x")
    path.start(runs=False)
    path.run()
    before = path.partition(STATE_TOPIC, partition).log.log_end_offset
    path.advance(1)
    assert path.partition(STATE_TOPIC, partition).log.log_end_offset == before + 1
    assert {node_id for node_id, _ in path.leaders.requests} == {1, 2}


def test_requests_are_refused_while_the_state_is_loaded(path: TransactionPath) -> None:
    producer = prepared(path, 2)
    path.stop()
    path.start(runs=False)
    assert path.transactions.runtime.shard_of("x").status is ShardStatus.LOADING
    answer = path.begin(producer.add_request(T0), 5)
    assert producer.added(answer.result()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    path.run()
    assert producer.add(T0) is NONE


def test_leadership_that_goes_away_and_comes_back(path: TransactionPath) -> None:
    path.leaders.unreachable.add(1)
    producer = prepared(path, 2)
    assert producer.commit() is NONE
    topic = path.image.topics.by_name[STATE_TOPIC]
    index = path.transactions.runtime.partition_of("x")
    for epoch, leader in ((1, 2), (2, 1)):
        path.commit(
            r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, leader=leader, replicas=[1, 2])
            if epoch == 1
            else r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, leader=leader)
        )
        path.run()
        if leader == 2:
            assert producer.add(T0) is ErrorCode.NOT_COORDINATOR
            path.leaders.requests.clear()
            path.advance(5_000)
            assert not path.leaders.requests
    path.leaders.unreachable.clear()
    path.advance(1_000)
    assert path.status("x") == "CompleteCommit"
    (marker,) = path.leaders.requests[-1][1].markers
    assert marker.coordinator_epoch > 0


def test_a_disk_that_is_full_at_the_decision_leaves_the_transaction_open(path: TransactionPath) -> None:
    producer = prepared(path, 2)
    _fail_appends(path, 1)
    assert producer.commit() is ErrorCode.NOT_COORDINATOR
    path.run()
    assert path.status("x") == "Ongoing"
    assert not path.leaders.requests
    assert producer.commit() is NONE
    assert path.status("x") == "CompleteCommit"


def test_a_disk_that_is_full_at_the_completion_ends_well(path: TransactionPath) -> None:
    path.leaders.silent.update((1, 2))
    producer = prepared(path, 2)
    assert producer.commit() is NONE
    _fail_appends(path, 1)
    path.leaders.silent.clear()
    path.leaders.release()
    path.run()
    path.advance(1_000)
    assert path.status("x") == "CompleteCommit"


def _fail_appends(path: TransactionPath, times: int) -> None:
    """The next appends to the topic of transactions find the disk full."""
    index = path.transactions.runtime.partition_of("x")
    shard = path.transactions.runtime.shard_of("x")
    partition = path.partition(STATE_TOPIC, index)
    left = times

    class Failing:
        def __getattr__(self, name: str) -> object:
            return getattr(partition, name)

        def append_built(self, *arguments: object, **named: object) -> object:
            nonlocal left
            if left:
                left -= 1
                raise DiskFull("no room")
            return partition.append_built(*arguments, **named)  # type: ignore[arg-type]

    shard.partition = Failing()  # type: ignore[assignment]


def test_too_few_replicas_change_nothing(make_path: Callable[..., TransactionPath]) -> None:
    path = make_path()
    producer = prepared(path, 2)
    topic = path.image.topics.by_name[STATE_TOPIC]
    index = path.transactions.runtime.partition_of("x")
    path.commit(
        r.ConfigRecord(resource_type=2, resource_name=STATE_TOPIC, name="min.insync.replicas", value="2"),
        r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1]),
    )
    path.run()
    assert producer.commit() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert path.status("x") == "Ongoing"
    assert not path.leaders.requests


def test_a_decision_that_waits_too_long_for_followers_is_still_carried_out(
    make_path: Callable[..., TransactionPath],
) -> None:
    """The client gets an error for the unknown outcome; no marker is sent before the commit."""
    path = make_path(request_timeout_ms="3000")
    producer = prepared(path, 2)
    topic = path.image.topics.by_name[STATE_TOPIC]
    index = path.transactions.runtime.partition_of("x")
    path.commit(r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1, 2]))
    path.run()
    answer: Deferred[object] = path.begin(_end_request(producer), 5)
    path.advance(2_900)
    assert not answer.done
    path.advance(200)
    assert answer.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
    assert not path.leaders.requests, "the follower may become leader without ever having heard of it"
    path.advance(500)
    partition = path.partition(STATE_TOPIC, index)
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()
    assert path.leaders.written
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()
    assert path.status("x") == "CompleteCommit"


def _end_request(producer: Producer) -> object:
    return EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=True,
    )


def test_a_completion_that_finds_too_few_replicas_is_tried_again(path: TransactionPath) -> None:
    path.leaders.silent.update((1, 2))
    prepared(path, 2).commit()
    topic = path.image.topics.by_name[STATE_TOPIC]
    index = path.transactions.runtime.partition_of("x")
    path.commit(
        r.ConfigRecord(resource_type=2, resource_name=STATE_TOPIC, name="min.insync.replicas", value="2"),
        r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1]),
    )
    path.leaders.silent.clear()
    path.leaders.release()
    path.advance(300)
    assert path.status("x") == "PrepareCommit"
    path.commit(r.ConfigRecord(resource_type=2, resource_name=STATE_TOPIC, name="min.insync.replicas", value="1"))
    path.advance(1_000)
    assert path.status("x") == "CompleteCommit"
    assert len(path.leaders.requests) == 2, "the markers were written: only the end is written again"


def test_a_completion_that_is_tried_again_ends_no_other_transaction(
    make_path: Callable[..., TransactionPath],
) -> None:
    """With the first version the next transaction has the same producer id and epoch; its markers are still to come."""
    path = make_path(request_timeout_ms="3000")
    producer = prepared(path, 1)
    topic = path.image.topics.by_name[STATE_TOPIC]
    index = path.transactions.runtime.partition_of("x")
    path.commit(r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1, 2]))
    ending = producer.begin_end(commits=True)
    path.run()
    follow(path, index)
    assert ending.result().error_code == NONE
    assert path.status("x") == "CompleteCommit", "which the follower does not know yet"
    path.advance(2_990)
    adding = path.begin(producer.add_request(T0, T1), 3)
    path.advance(20)
    follow(path, index)
    assert producer.added(adding.result()) is NONE
    second = producer.begin_end(commits=False)
    path.advance(RETRY_MS)
    assert path.status("x") == "PrepareAbort"
    follow(path, index)
    assert second.result().error_code == NONE
    path.advance(1_000)
    assert path.status("x") == "CompleteAbort"
    assert [batch.is_commit for batch in path.leaders.written if batch.partition == T0] == [True, False]


def test_only_the_markers_of_this_transaction_complete_it(path: TransactionPath) -> None:
    producer = prepared(path, 2)
    path.leaders.silent.add(1)
    producer.begin_end(commits=True)
    path.run()
    state = path.transactions.runtime.shard_of("x").state
    transaction = state.transactions["x"]
    written = {
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "prepared_ms": transaction.last_update_ms,
    }
    for field in written:
        # Another transaction may have been prepared in the same millisecond.
        other = {**written, field: written[field] - 1}
        assert not decide_complete(state, "x", **other, now_ms=path.virtual.clock.ms).records, field
    assert decide_complete(state, "x", **written, now_ms=path.virtual.clock.ms).records


def follow(path: TransactionPath, index: int) -> None:
    """The second replica fetches up to the end of the log."""
    partition = path.partition(STATE_TOPIC, index)
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_records_are_of_the_version_that_every_broker_knows(
    make_path: Callable[..., TransactionPath], level: int, version: int
) -> None:
    path = make_path(level=level)
    producer = prepared(path, 1)
    producer.commit()
    log = path.partition(STATE_TOPIC, path.transactions.runtime.partition_of("x")).log
    region = log.read(0, max_bytes=1 << 20, end_offset=log.log_end_offset).region
    assert region is not None
    values = [record.value for batch in iterate_batches(region.read()) for record in iterate_records(batch)]
    assert [int.from_bytes(bytes(value[:2]), "big") for value in values if value] == [version] * 4
    path.crash()
    path.start()
    assert path.status("x") == "CompleteCommit"
