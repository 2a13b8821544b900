"""A response may submit the next decision of its shard: the decision must not be lost with the batch that it begins."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.offsets import removal
from ottla.coordinator.runtime.shard import LONG_RUN
from ottla.coordinator.txn.state import record_of
from ottla.coordinator.txn.transaction import EPOCH_MAX
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.storage.errors import DiskFull
from ottla.storage.log import PartitionLog
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_path import OFFSETS_TOPIC, GroupPath
from tests.support.transaction_path import Producer, TransactionPath
from tests.unit.coordinator.test_offsets_in_transactions import Bench


def long_commit(group_id: str, topic: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition] * LONG_RUN)]
    )


def test_a_long_commit_does_not_end_the_removal_of_offsets_of_a_deleted_topic(
    log_directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "TOMBSTONES_PER_DECISION_MAX", 2)
    path = GroupPath(log_directory)
    path.create_topic("t", 6)
    path.create_topic("u", 1)
    path.create_offsets_topic(1)
    path.commit_offsets("g", {**{("t", index): 1 for index in range(6)}, ("u", 0): 1})
    path.commit(r.RemoveTopicRecord(topic_id=path.image.topics.by_name["t"].topic_id))
    # The first two tombstones wait for the end of the turn. The commit is a batch of its own, and ends theirs.
    answer = path.begin(long_commit("h", "u"), 9)
    path.run()
    assert answer.done
    assert path.fetch_offsets("g") == {("u", 0): 1}
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == {("u", 0): 1}
    path.stop()


@pytest.mark.parametrize("configs", [{}, {"flush.messages": "1"}])
def test_every_decision_that_a_response_submits_is_answered_and_logged(
    configs: dict[str, str], log_directory: str
) -> None:
    """A flush may end at once, for example because it fails before a worker gets it."""
    path = GroupPath(log_directory)
    path.create_topic("t", 3)
    path.create_offsets_topic(1, **configs)
    path.virtual.workers.immediate = True

    def commit(offset: int) -> Deferred[int]:
        record = (
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=1, expire_timestamp=-1),
        )
        return path.groups.submit("g", lambda _shard, _now_ms: Decision([record], offset))

    following: list[Deferred[int]] = []
    commit(1).when_done(lambda _: following.append(commit(2)))
    answer = path.begin(long_commit("g", "t"), 9)
    path.run()
    assert answer.result().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert [response.done for response in following] == [True]
    before = path.fetch_offsets("g")
    assert set(before) == {("t", 0)}
    path.stop()
    path.start()
    assert path.fetch_offsets("g") == before, "the state is that of the log"
    path.stop()


def test_a_decision_is_not_written_if_the_append_of_an_earlier_one_fails(
    log_directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is empty, so it is loaded again at once. The decision was made on the dropped state."""
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    path.create_offsets_topic(1)
    record = (
        OffsetCommitKey(group="h", topic="t", partition=0),
        OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp=1, expire_timestamp=-1),
    )
    earlier = path.groups.submit("h", lambda _shard, _now_ms: Decision([record], 1))
    questions: list[Deferred[int]] = []

    def ask(_: object) -> None:
        questions.append(path.groups.submit("h", lambda shard, _now_ms: Decision((), len(shard.offsets.of_group("h")))))

    earlier.when_done(ask)
    partition = path.partition(OFFSETS_TOPIC, 0)
    append_built = partition.log.append_built
    failures = [DiskFull("no room")]

    def refuse_once(_log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return append_built(*arguments, **options)

    monkeypatch.setattr(type(partition.log), "append_built", refuse_once)
    answer = path.begin(long_commit("g", "t"), 9)
    path.run()
    assert isinstance(earlier.error, KafkaError)
    assert earlier.error.code is ErrorCode.NOT_COORDINATOR
    assert [question.result() for question in questions] == [0], "the dropped state answers no question"
    code = ErrorCode(answer.result().topics[0].partitions[0].error_code)
    assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "clients retry it"
    assert partition.log.log_end_offset == 0
    assert path.fetch_offsets("g") == {}
    path.stop()


def test_a_decision_that_a_response_submits_stays_out_of_a_transaction(path: GroupPath) -> None:
    def commit(offset: int) -> Deferred[int]:
        record = (
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=1, expire_timestamp=-1),
        )
        return path.groups.submit("g", lambda _shard, _now_ms: Decision([record], offset))

    bench = Bench(path)
    following: list[Deferred[int]] = []
    commit(1).when_done(lambda _: following.append(commit(2)))
    assert bench.commit(20) is ErrorCode.NONE
    assert [response.done for response in following] == [True]
    assert bench.end(commit=False) is ErrorCode.NONE
    assert bench.offset() == 2
    bench.restart()
    assert bench.offset() == 2


def test_a_producer_with_used_up_epochs_gets_its_new_id_from_a_full_batch(log_directory: str) -> None:
    path = TransactionPath(log_directory)
    path.set_transaction_version(2)
    path.create_topic("t", 1)
    path.create_state_topic(1, max_message_bytes="300")
    producers = [Producer(path, transactional_id) for transactional_id in ("x", "a" * 60, "b" * 60)]
    assert [producer.init() for producer in producers] == [ErrorCode.NONE] * 3
    transaction = path.transaction("x")
    record = transaction.as_record()
    record.producer_epoch = EPOCH_MAX - 1
    path.transactions.runtime.submit("x", lambda _shard, _now_ms: Decision([record_of(transaction, record)], None))
    path.run()
    answers = [
        path.begin(producers[1].add_request(("t", 0))),
        path.begin(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)),
        # The record does not fit into the batch of the first one, whose end gives the second request its producer id.
        path.begin(producers[2].add_request(("t", 0))),
    ]
    path.run()
    assert [answer.done for answer in answers] == [True] * 3
    assert answers[1].result().producer_epoch == 0
    path.stop()
