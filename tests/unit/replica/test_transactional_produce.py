"""Transactional batches: the first one waits for the coordinator's verification, in order; markers end transactions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import describe_producers, produce, write_txn_markers
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Partition
from ottla.replica.transactional import Transaction, TransactionalAppends
from ottla.storage.producer_state import LATE_TRANSACTION_GRACE_MS
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.data_path import DataPath, batch, values

READ_COMMITTED = 1


class Coordinator:
    """A coordinator that answers when a test asks for it."""

    def __init__(self) -> None:
        self.is_enabled = True
        self.asked: list[tuple[Transaction, int, int, str, int]] = []
        self.answers: list[Deferred[ErrorCode]] = []

    def ask(
        self, transaction: Transaction, *, producer_id: int, producer_epoch: int, topic: str, index: int
    ) -> Deferred[ErrorCode]:
        self.asked.append((transaction, producer_id, producer_epoch, topic, index))
        answer: Deferred[ErrorCode] = Deferred()
        self.answers.append(answer)
        return answer

    def say(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.answers.pop(0).resolve(code)


class Bench:
    def __init__(self, node: DataPath, **configs: str) -> None:
        self.node = node
        self.coordinator = Coordinator()
        node.create_topic("t", **configs)
        self.attach()

    def attach(self) -> None:
        node = self.node
        node.broker.transactional_appends = TransactionalAppends(self.coordinator, node.replicas.validations)
        node.broker.world = node.virtual.world
        self.log = node.partition("t").log

    def send(
        self, *texts: str, sequence: int = 0, epoch: int = 0, producer_id: int = 7, version: int = 12, **options: Any
    ) -> Any:
        records = batch(
            *texts,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            **{"is_transactional": True, **options},
        )
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(transactional_id="x", acks=1, timeout_ms=1000, topic_data=[data])
        return self.node.call(produce, request, version)

    def answer(self, sent: Any) -> PartitionProduceResponse:
        self.node.virtual.scheduler.run()
        response = sent.result() if isinstance(sent, Deferred) else sent
        assert isinstance(response, ProduceResponse)
        return response.responses[0].partition_responses[0]

    def code(self, sent: Any) -> ErrorCode:
        return ErrorCode(self.answer(sent).error_code)

    def begin(self, *texts: str, **options: Any) -> None:
        sent = self.send(*texts, **options)
        self.coordinator.say()
        assert self.code(sent) is ErrorCode.NONE

    def end(
        self, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 1, version: int = 0, producer_id: int = 7
    ) -> ErrorCode:
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_result=commit,
                    topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=version,
                )
            ]
        )
        response = self.node.call(write_txn_markers, request, 2)
        self.node.virtual.scheduler.run()
        return ErrorCode(response.result().markers[0].topics[0].partitions[0].error_code)

    def committed(self, offset: int = 0) -> Any:
        return self.node.fetch_one("t", offset, isolation_level=READ_COMMITTED)


@pytest.fixture
def bench(node: DataPath) -> Bench:
    return Bench(node)


def test_only_the_first_batch_of_a_transaction_is_asked_about(bench: Bench) -> None:
    sent = bench.send("a")
    assert isinstance(sent, Deferred)
    assert bench.log.log_end_offset == 0
    bench.coordinator.say()
    assert bench.code(sent) is ErrorCode.NONE
    assert bench.code(bench.send("b", sequence=1)) is ErrorCode.NONE
    assert len(bench.coordinator.asked) == 1
    assert bench.end(commit=True) is ErrorCode.NONE
    bench.begin("c", sequence=2)
    assert len(bench.coordinator.asked) == 2


@pytest.mark.parametrize(("version", "adds", "knows"), [(3, False, False), (11, False, True), (12, True, True)])
def test_the_version_of_the_request_says_what_is_asked(bench: Bench, version: int, adds: bool, knows: bool) -> None:
    bench.send("a", version=version)
    assert bench.coordinator.asked[0] == (Transaction("x", adds, knows), 7, 0, "t", 0)


def test_batches_wait_in_order_behind_the_one_that_is_asked_about(bench: Bench) -> None:
    first, second, third = bench.send("a"), bench.send("b", sequence=1), bench.send("c", sequence=2)
    other = bench.send("other", producer_id=8)
    assert len(bench.coordinator.asked) == 2
    assert bench.log.log_end_offset == 0
    bench.coordinator.answers.pop(1).resolve(ErrorCode.NONE)
    assert bench.answer(other).base_offset == 0
    bench.coordinator.say()
    assert [bench.answer(sent).base_offset for sent in (first, second, third)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, 12, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 10, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 10, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_what_producers_are_told(bench: Bench, code: ErrorCode, version: int, told: ErrorCode) -> None:
    first, second = bench.send("a", version=version), bench.send("b", sequence=1, version=version)
    bench.coordinator.say(code)
    assert (bench.code(first), bench.code(second)) == (told, told)
    assert bench.log.log_end_offset == 0
    # A final refusal is not remembered.
    is_final = told not in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert bool(bench.log.producers.state._verifications) is not is_final
    # The next attempt asks again.
    bench.begin("a", version=version)


def test_a_batch_that_failed_is_not_overtaken(bench: Bench) -> None:
    first = bench.send("a", sequence=0, version=11)
    bench.coordinator.say(ErrorCode.NETWORK_EXCEPTION)
    assert bench.code(first) is ErrorCode.NOT_ENOUGH_REPLICAS
    second = bench.send("b", sequence=1, version=11)
    bench.coordinator.say()
    assert bench.code(second) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    # The verification is kept: the missing batch is appended at once.
    assert bench.code(bench.send("a", sequence=0, version=11)) is ErrorCode.NONE


def test_an_answer_that_a_marker_overtook_counts_no_more(bench: Bench) -> None:
    late = bench.send("late", version=11)
    assert bench.end(commit=False) is ErrorCode.NONE
    bench.coordinator.say()
    assert bench.code(late) is ErrorCode.INVALID_TXN_STATE
    assert bench.log.log_end_offset == 1


def test_the_marker_of_the_transaction_before_does_not_harm_the_next(bench: Bench) -> None:
    bench.begin("a")
    early = bench.send("b", epoch=1)
    assert bench.end(commit=True, epoch=1) is ErrorCode.NONE
    bench.coordinator.say()
    bench.coordinator.say()
    assert bench.code(early) is ErrorCode.NONE


def test_a_late_batch_of_an_ended_transaction_begins_none(bench: Bench) -> None:
    bench.begin("a", version=11)
    assert bench.end(commit=True) is ErrorCode.NONE
    late = bench.send("late", sequence=1, version=11)
    bench.coordinator.say(ErrorCode.INVALID_TXN_STATE)
    assert bench.code(late) is ErrorCode.INVALID_TXN_STATE
    assert bench.log.last_stable_offset == 2


def test_after_an_end_with_a_new_epoch_the_old_one_is_fenced_without_asking(bench: Bench) -> None:
    bench.begin("a")
    assert bench.end(commit=True, epoch=1, version=2) is ErrorCode.NONE
    assert bench.code(bench.send("late", sequence=1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(bench.coordinator.asked) == 1
    wrong = bench.send("b", sequence=1, epoch=1)
    bench.coordinator.say()
    assert bench.code(wrong) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.code(bench.send("b", sequence=0, epoch=1)) is ErrorCode.NONE


@pytest.mark.parametrize("is_answered", [False, True])
def test_an_older_epoch_than_was_asked_about_is_fenced_without_asking(bench: Bench, is_answered: bool) -> None:
    """The newer producer is not in the log yet: there is only the verification of it, which may have failed."""
    newer = bench.send("newer", epoch=1)
    if is_answered:
        bench.coordinator.say(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert bench.code(newer) is ErrorCode.NOT_ENOUGH_REPLICAS
    older = bench.send("older", epoch=0)
    if not is_answered:
        # It waits behind the newer one, and would be verified again and again while the coordinator cannot answer.
        bench.coordinator.say(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.code(older) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(bench.coordinator.asked) == 1
    bench.begin("newer", epoch=1)
    assert values(bench.log.segments.active.file.read(0, bench.log.size_bytes)) == ["newer"]


def test_a_new_transaction_of_a_new_producer_begins_with_sequence_zero(bench: Bench) -> None:
    for version, expected in ((12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (11, ErrorCode.NONE)):
        sent = bench.send("a", sequence=5, version=version, producer_id=version)
        bench.coordinator.say()
        assert bench.code(sent) is expected


def test_old_formats_have_no_transactions(bench: Bench) -> None:
    for size in (30, 90):
        records = memoryview(bytearray(size))
        records[22] = 0x10
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(transactional_id="x", acks=1, timeout_ms=1000, topic_data=[data])
        assert bench.code(bench.node.call(produce, request, 11)) is ErrorCode.INVALID_RECORD
    assert not bench.coordinator.asked


def test_without_verification_no_coordinator_is_asked(bench: Bench) -> None:
    bench.coordinator.is_enabled = False
    assert bench.code(bench.send("a", version=11)) is ErrorCode.NONE
    assert not bench.coordinator.asked
    # A producer whose partitions are added by the verification still works.
    bench.begin("b", producer_id=8)
    assert len(bench.coordinator.asked) == 1


def test_a_batch_outside_transactions_needs_no_coordinator(bench: Bench) -> None:
    assert bench.code(bench.send("a", is_transactional=False)) is ErrorCode.NONE
    assert not bench.coordinator.asked


def test_a_duplicate_is_answered_after_its_transaction_has_ended(bench: Bench) -> None:
    bench.begin("a", version=11)
    assert bench.end(commit=True) is ErrorCode.NONE
    again = bench.send("a", version=11)
    bench.coordinator.say()
    assert bench.answer(again).base_offset == 0
    assert bench.log.log_end_offset == 2


def test_readers_of_committed_data_wait_for_the_end(bench: Bench) -> None:
    bench.node.append("t", "before")
    bench.begin("in")
    bench.node.append("t", "after")
    assert values(bench.committed().records) == ["before"]
    assert values(bench.node.fetch_one("t", 0).records) == ["before", "in", "after"]
    assert bench.committed().last_stable_offset == 1
    assert bench.node.list_offset("t", -1, isolation_level=READ_COMMITTED).offset == 1
    waiting = bench.node.fetch("t", {0: 1}, isolation_level=READ_COMMITTED, max_wait_ms=1000)
    assert isinstance(waiting, Deferred)
    assert bench.end(commit=True) is ErrorCode.NONE
    assert waiting.done
    data = waiting.result().responses[0].partitions[0]
    assert values(data.records)[:2] == ["in", "after"]
    assert data.aborted_transactions == []


def test_aborted_transactions_are_named(bench: Bench) -> None:
    bench.begin("gone")
    bench.begin("kept", producer_id=8)
    assert bench.end(commit=False) is ErrorCode.NONE
    assert bench.committed().last_stable_offset == 1
    assert bench.end(commit=True, producer_id=8) is ErrorCode.NONE
    aborted = bench.committed().aborted_transactions
    assert [(transaction.producer_id, transaction.first_offset) for transaction in aborted] == [(7, 0)]
    assert bench.committed(3).aborted_transactions == []


def test_the_list_of_aborted_transactions_ends_with_what_is_read(bench: Bench) -> None:
    for number in range(20):
        bench.begin("x" * 100, sequence=number, version=11)
        assert bench.end(commit=False) is ErrorCode.NONE
    data = bench.node.fetch_one("t", 0, isolation_level=READ_COMMITTED, partition_max_bytes=600)
    last = max(transaction.first_offset for transaction in data.aborted_transactions or ())
    assert 0 < last < 10


def test_an_older_coordinator_is_fenced(bench: Bench) -> None:
    bench.begin("a")
    assert bench.end(commit=False, coordinator_epoch=3) is ErrorCode.NONE
    assert bench.end(commit=True, coordinator_epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert bench.end(commit=True, coordinator_epoch=3) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "epoch", "told"),
    [
        (0, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, ErrorCode.NONE),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, ErrorCode.NONE),
    ],
)
def test_the_epoch_a_marker_needs(bench: Bench, version: int, epoch: int, told: ErrorCode) -> None:
    bench.begin("a", epoch=5)
    assert bench.end(commit=True, epoch=epoch, version=version) is told
    assert bench.log.last_stable_offset == (2 if told is ErrorCode.NONE else 0)


def test_a_marker_with_the_last_epoch_ends_a_transaction_of_that_epoch(bench: Bench) -> None:
    # There is no higher epoch that it could have.
    bench.begin("a", epoch=32767)
    assert bench.end(commit=True, epoch=32767, version=2) is ErrorCode.NONE
    assert bench.log.last_stable_offset == 2


def test_a_marker_may_be_repeated(bench: Bench) -> None:
    bench.begin("a", epoch=5)
    for _ in range(2):
        assert bench.end(commit=True, epoch=6, version=2) is ErrorCode.NONE
    bench.begin("b", epoch=6)
    # But the marker of the transaction before does not end this one.
    assert bench.end(commit=True, epoch=6, version=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_markers_for_what_is_not_here(bench: Bench) -> None:
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=7,
                producer_epoch=0,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name="nowhere", partition_indexes=[0])],
                coordinator_epoch=0,
            )
        ]
    )
    response = bench.node.call(write_txn_markers, request, 1).result()
    assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_open_transactions_are_described(bench: Bench) -> None:
    bench.node.append("t", "before")
    bench.begin("a", "b")
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])

    def described() -> Any:
        return bench.node.call(describe_producers, request, 0).result().topics[0].partitions[0].active_producers[0]

    assert (described().producer_id, described().current_txn_start_offset) == (7, 1)
    assert (described().last_sequence, described().coordinator_epoch) == (1, -1)
    assert bench.end(commit=False, coordinator_epoch=9) is ErrorCode.NONE
    assert (described().current_txn_start_offset, described().coordinator_epoch) == (-1, 9)


def test_a_restart_keeps_an_open_transaction_open(bench: Bench) -> None:
    bench.begin("a")
    node = bench.node
    node.stop()
    node.start()
    again = node.partition("t").log
    assert again.first_unstable_offset == 0
    node.broker.transactional_appends = TransactionalAppends(bench.coordinator, node.virtual.world.workers)
    node.broker.world = node.virtual.world
    assert bench.code(bench.send("b", sequence=1)) is ErrorCode.NONE
    assert bench.end(commit=True) is ErrorCode.NONE
    assert again.last_stable_offset == 3


def test_a_hanging_transaction_is_counted(bench: Bench) -> None:
    clock = bench.node.virtual.clock
    sent = bench.send("a", timestamp=clock.now_ms())
    bench.coordinator.say()
    assert bench.code(sent) is ErrorCode.NONE
    clock.ms += bench.node.config.transaction_max_timeout_ms + LATE_TRANSACTION_GRACE_MS
    assert bench.node.replicas.statistics().late_transactions == 0
    clock.ms += 1
    assert bench.node.replicas.statistics().late_transactions == 1
    assert bench.end(commit=False) is ErrorCode.NONE
    assert bench.node.replicas.statistics().late_transactions == 0


def test_an_open_transaction_outlives_its_producer_id(bench: Bench) -> None:
    bench.begin("a")
    state = bench.log.producers.state
    assert state.expire(1 << 50, 1) == 0
    assert bench.end(commit=True) is ErrorCode.NONE
    assert state.expire(1 << 50, 1) == 1
    # A pending verification is dropped, too.
    bench.send("b", sequence=1)
    assert len(state._verifications) == 1
    state.expire(1 << 50, 1)
    assert not state._verifications


def test_a_defect_does_not_shut_a_producer_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = bench.send("a"), bench.send("b", sequence=1)
    original = Partition.append_as_leader
    defects = [RuntimeError("a defect")]

    def append_as_leader(partition: Partition, *arguments: Any, **options: Any) -> Any:
        if defects:
            raise defects.pop()
        return original(partition, *arguments, **options)

    monkeypatch.setattr(Partition, "append_as_leader", append_as_leader)
    bench.coordinator.say()
    bench.node.virtual.scheduler.run()
    assert bench.code(first) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.code(second) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    # The producer sends both batches again, and both succeed.
    assert bench.code(bench.send("a")) is ErrorCode.NONE
    assert bench.code(bench.send("b", sequence=1)) is ErrorCode.NONE


@pytest.mark.parametrize("restarts", [False, True])
def test_a_batch_that_waits_for_its_validation_while_its_transaction_is_aborted(node: DataPath, restarts: bool) -> None:
    """It would begin a transaction that no coordinator knows. The producer's epoch stays the same (version 1)."""
    bench = Bench(node, compression_type="lz4")
    bench.begin("a", version=11)
    if restarts:
        node.stop()
        node.start()
        bench.attach()
    late = bench.send(*["x" * 1000] * 50, sequence=1, version=11)
    assert isinstance(late, Deferred)
    assert not late.done
    assert bench.end(commit=False) is ErrorCode.NONE
    node.virtual.workers.run_all()
    assert bench.code(late) is ErrorCode.INVALID_TXN_STATE
    assert bench.log.first_unstable_offset is None
