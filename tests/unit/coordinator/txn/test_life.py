"""The life of a transactional id: both versions of transactions, fencing, exhausted epochs, time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.txn import TRANSACTION_TOPIC
from ottla.coordinator.txn.states import (
    EXPIRABLE,
    PREPARED,
    STATUS_BY_NAME,
    TRANSITIONS,
    ImpossibleTransition,
    TransactionStatus,
)
from ottla.coordinator.txn.transaction import EPOCH_MAX, Transaction, TransactionRecord
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.iterate import iterate_batches
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.transaction_records import TransactionLogKey
from tests.support.transaction_path import Producer, TransactionPath, Written

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MINUTE_MS = 60_000

NONE = ErrorCode.NONE


def set_epoch(path: TransactionPath, producer: Producer, epoch: int) -> None:
    """Sets the epoch, as after long use."""
    transaction = path.transaction(producer.transactional_id)
    transaction.producer_epoch = epoch
    producer.epoch = epoch


# The table.


def test_the_table_is_closed() -> None:
    assert TRANSITIONS.keys() == set(TransactionStatus)
    assert not TRANSITIONS[TransactionStatus.DEAD]
    assert all(len(TRANSITIONS[status]) == 1 for status in PREPARED), "what is decided ends one way"
    assert all(TransactionStatus.DEAD in TRANSITIONS[status] for status in EXPIRABLE)


def test_states_have_the_names_that_tools_know() -> None:
    assert set(STATUS_BY_NAME) == {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }


def test_an_impossible_transition_tells_its_story(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    producer.add(T0)
    with pytest.raises(ImpossibleTransition, match=r"x: EMPTY\(1001/0 at \d+\) -> ONGOING.* -> COMPLETE_COMMIT"):
        path.transaction("x").change(TransactionStatus.COMPLETE_COMMIT, now_ms=1)


def test_replay_refuses_what_cannot_follow(path: TransactionPath) -> None:
    Producer(path, "x").init()
    shard = path.shard_of("x")
    record = TransactionRecord(producer_id=1, transaction_status=TransactionStatus.COMPLETE_ABORT)
    record.last_producer_epoch = -1
    with pytest.raises(ImpossibleTransition):
        shard.replay(TransactionLogKey(transactional_id="x"), record)


# A transaction.


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_from_beginning_to_end(path: TransactionPath, version: int, commits: bool) -> None:
    producer = Producer(path, "x", version=version)
    assert (producer.init(), producer.epoch) == (NONE, 0)
    assert producer.add(T0, T1) is NONE
    assert path.status("x") == "Ongoing"
    producer_id = producer.producer_id
    assert producer.end(commits=commits) is NONE
    assert path.status("x") == ("CompleteCommit" if commits else "CompleteAbort")
    # Of the second version the marker has the new epoch, so that late batches of this transaction are too old.
    epoch = 1 if version == 2 else 0
    assert set(path.leaders.written) == {Written(partition, producer_id, epoch, commits) for partition in (T0, T1)}
    assert (producer.producer_id, producer.epoch) == (producer_id, epoch)
    assert not path.transaction("x").partitions
    assert producer.add(T1) is NONE
    assert path.transaction("x").partitions == {T1}


def test_the_producer_is_answered_before_the_markers_and_the_next_begins_after_them(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    producer = Producer(path, "x")
    producer.init()
    producer.add(T0)
    assert producer.commit() is NONE
    assert path.status("x") == "PrepareCommit"
    answer = path.begin(producer.add_request(T1), 5)
    path.run()
    assert not answer.done, "it waits for the markers"
    path.leaders.release()
    path.run()
    assert producer.added(answer.result()) is NONE
    assert path.status("x") == "Ongoing"
    assert path.transaction("x").partitions == {T1}


@pytest.mark.parametrize(("version", "request_version", "wait_ms"), [(1, 3, 100), (2, 5, 10)])
def test_a_request_that_waits_too_long_for_markers_has_to_be_repeated(
    path: TransactionPath, version: int, request_version: int, wait_ms: int
) -> None:
    path.leaders.silent.add(1)
    producer = Producer(path, "x", version=version)
    producer.init()
    producer.add(T0)
    producer.commit()
    answer = path.begin(producer.add_request(T1), request_version)
    path.advance(wait_ms - 1)
    assert not answer.done
    path.advance(1)
    assert producer.added(answer.result()) is ErrorCode.CONCURRENT_TRANSACTIONS
    path.leaders.release()
    path.run()
    assert path.status("x") == "CompleteCommit", "the one that gave up did not begin anything"


def test_time_runs_out_in_the_turn_in_which_the_markers_are_written(path: TransactionPath) -> None:
    # Delays the response, as waiting for followers does.
    path.commit(r.ConfigRecord(resource_type=2, resource_name=TRANSACTION_TOPIC, name="flush.messages", value="1"))
    path.leaders.silent.add(1)
    producer = Producer(path, "x")
    producer.init()
    producer.add(T0)
    producer.commit()
    answer = path.begin(producer.add_request(T1), 5)
    path.run()
    path.leaders.release()
    # The transaction is complete. Waiting requests are answered at the end of the turn; their timer may fire earlier.
    waits = [timer for _, _, timer in path.virtual.scheduler._later if timer.callback.__name__ == "on_end_or_time"]
    (timer,) = waits
    timer.callback()
    path.run()
    assert producer.added(answer.result()) is NONE
    assert path.transaction("x").partitions == {T1}


def test_only_so_many_wait_for_one_id(path: TransactionPath) -> None:
    path.leaders.silent.add(1)
    producer = Producer(path, "x")
    producer.init()
    producer.add(T0)
    producer.commit()
    waiting = [path.begin(producer.add_request(T1), 5) for _ in range(100)]
    assert producer.add(T1) is ErrorCode.CONCURRENT_TRANSACTIONS
    path.leaders.release()
    path.run()
    assert {producer.added(waiter.result()) for waiter in waiting} == {NONE}


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_else_begins_while_markers_are_on_their_way(path: TransactionPath, version: int) -> None:
    path.leaders.silent.add(1)
    producer = Producer(path, "x", version=version)
    producer.init()
    producer.add(T0)
    producer.commit()
    assert producer.add(T0, verify=True) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.commit() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.abort() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert Producer(path, "x").init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert path.status("x") == "PrepareCommit"


def test_a_transaction_grows_and_keeps_its_time(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    producer.add(T0)
    begun_ms = path.virtual.clock.ms
    path.advance(5)
    producer.add(T1)
    transaction = path.transaction("x")
    assert (transaction.partitions, transaction.start_ms) == ({T0, T1}, begun_ms)
    assert set(path.shard_of("x").ongoing) == {"x"}
    producer.commit()
    assert not path.shard_of("x").ongoing, "only open transactions are looked at for their time"


def test_verification_answers_for_each_partition(path: TransactionPath) -> None:
    producer = Producer(path, "x", version=1)
    producer.init()
    producer.add(T0)
    assert producer.add(T0, verify=True) is NONE
    assert producer.add(T1, verify=True) is ErrorCode.TRANSACTION_ABORTABLE
    producer.epoch += 1
    assert producer.add(T0, verify=True) is ErrorCode.PRODUCER_FENCED


def test_several_transactions_in_one_turn_cost_one_append(path: TransactionPath) -> None:
    producers = [Producer(path, f"x{number}") for number in range(20)]
    for producer in producers:
        producer.init()
    before = {index: path.partition("__transaction_state", index).log.log_end_offset for index in (0, 1)}
    answers = [path.begin(producer.add_request(T0), 5) for producer in producers]
    path.run()
    assert all(answer.done for answer in answers)
    for index, offset in before.items():
        log = path.partition("__transaction_state", index).log
        region = log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset).region
        assert region is not None
        (batch,) = iterate_batches(region.read())
        assert batch.header.record_count > 5


# Fencing.


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_newer_instance_aborts_and_fences_the_older(make_path: Callable[..., TransactionPath], level: int) -> None:
    path = make_path(level=level)
    older, newer = (Producer(path, "x", version=max(level, 1)) for _ in range(2))
    older.init()
    older.add(T0)
    assert newer.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert path.status("x") == "CompleteAbort"
    assert path.leaders.written == [Written(T0, older.producer_id, 1, False)]
    assert older.commit() is (ErrorCode.INVALID_TXN_STATE if level == 2 else ErrorCode.PRODUCER_FENCED)
    assert newer.init() is NONE
    assert (newer.producer_id, newer.epoch) == (older.producer_id, 2)
    assert older.add(T0) is ErrorCode.PRODUCER_FENCED
    assert older.commit() is ErrorCode.PRODUCER_FENCED


def test_a_repeated_init_gets_the_same_answer_until_a_newer_producer_comes(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    before = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert (producer.init(**before), producer.epoch) == (NONE, 1)
    assert (producer.init(**before), producer.epoch) == (NONE, 1)
    Producer(path, "x").init()
    assert producer.init(**before) is ErrorCode.PRODUCER_FENCED
    own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert producer.init(**own) is ErrorCode.PRODUCER_FENCED, "the newer one did not continue the older"


# Exhausted epochs.


def test_a_fenced_producer_does_not_take_its_successors_end_for_its_own(path: TransactionPath) -> None:
    """The previous epoch belongs to a repeated request only if every end of a transaction raises the epoch."""
    older, newer = Producer(path, "x"), Producer(path, "x", version=1)
    older.init()
    assert newer.init() is NONE
    assert newer.add(T0) is NONE
    assert newer.commit() is NONE
    path.run()
    assert path.status("x") == "CompleteCommit"
    assert older.commit() is ErrorCode.PRODUCER_FENCED


def test_a_producer_id_is_used_up_by_instances(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    first_id = producer.producer_id
    set_epoch(path, producer, EPOCH_MAX - 2)
    assert (producer.init(), producer.epoch) == (NONE, EPOCH_MAX - 1)
    assert producer.producer_id == first_id
    assert (producer.init(), producer.epoch) == (NONE, 0)
    assert producer.producer_id == first_id + 1


def test_a_continuing_producer_may_repeat_the_step_to_a_new_id(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    set_epoch(path, producer, EPOCH_MAX - 1)
    before = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert (producer.init(**before), producer.epoch) == (NONE, 0)
    new_id = producer.producer_id
    assert new_id != before["producer_id"]
    assert (producer.init(**before), producer.producer_id, producer.epoch) == (NONE, new_id, 0)
    for epoch in (0, 3):
        old = {"producer_id": before["producer_id"], "producer_epoch": epoch}
        assert producer.init(**old) is ErrorCode.PRODUCER_FENCED


def test_a_producer_with_the_exhausted_id_has_to_have_its_last_epoch(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    first_id = producer.producer_id
    set_epoch(path, producer, EPOCH_MAX - 1)
    assert (producer.init(), producer.epoch) == (NONE, 0)
    assert Producer(path, "x").init(producer_id=first_id, producer_epoch=0) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commits", [True, False])
def test_a_producer_id_is_used_up_by_transactions(path: TransactionPath, commits: bool) -> None:
    producer = Producer(path, "x")
    producer.init()
    first_id = producer.producer_id
    set_epoch(path, producer, EPOCH_MAX - 1)
    producer.add(T0)
    path.leaders.silent.add(1)
    assert producer.end(commits=commits) is NONE
    assert (producer.producer_id, producer.epoch) == (first_id + 1, 0)
    assert path.transaction("x").next_producer_id == first_id + 1
    # A producer with the new id is early, but valid.
    assert producer.end(commits=commits) is ErrorCode.CONCURRENT_TRANSACTIONS
    path.leaders.release()
    path.run()
    assert path.leaders.written == [Written(T0, first_id, EPOCH_MAX, commits)]
    transaction = path.transaction("x")
    assert (transaction.producer_id, transaction.producer_epoch) == (first_id + 1, 0)
    assert transaction.previous_producer_id == first_id
    repeated = Producer(path, "x")
    repeated.producer_id, repeated.epoch = first_id, EPOCH_MAX - 1
    assert repeated.end(commits=commits) is NONE
    assert (repeated.producer_id, repeated.epoch) == (first_id + 1, 0)
    assert producer.add(T1) is NONE


def test_an_exhausted_producer_that_times_out_gets_a_new_id(path: TransactionPath) -> None:
    producer = Producer(path, "x", timeout_ms=1000)
    producer.init()
    first_id = producer.producer_id
    set_epoch(path, producer, EPOCH_MAX - 1)
    producer.add(T0)
    path.advance(11_000)
    transaction = path.transaction("x")
    assert (path.status("x"), transaction.producer_id, transaction.producer_epoch) == ("CompleteAbort", first_id + 1, 0)
    assert path.leaders.written == [Written(T0, first_id, EPOCH_MAX, False)]


# Time.


@pytest.mark.parametrize("level", [1, 2])
def test_a_transaction_that_is_open_for_too_long_is_aborted(
    make_path: Callable[..., TransactionPath], level: int
) -> None:
    path = make_path(level=level)
    producer, patient = Producer(path, "x", timeout_ms=5_000), Producer(path, "y", timeout_ms=MINUTE_MS)
    for client in (producer, patient):
        client.version = level
        client.init()
        client.add(T0)
    path.advance(9_999)
    assert path.status("x") == "Ongoing"
    path.advance(1)
    assert (path.status("x"), path.status("y")) == ("CompleteAbort", "Ongoing")
    assert path.leaders.written == [Written(T0, producer.producer_id, 1, False)]
    assert producer.commit() is (ErrorCode.INVALID_TXN_STATE if level == 2 else ErrorCode.PRODUCER_FENCED)
    if level == 2:
        assert producer.abort() is NONE, "the producer wanted the same, and goes on with the epoch that followed"
        assert producer.epoch == 1


def test_two_phase_commits_do_not_time_out(make_path: Callable[..., TransactionPath]) -> None:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000, enable_2pc=True)
    path = make_path(transaction_two_phase_commit_enable="true")
    response = path.ask(request, 6)
    assert response.error_code == NONE
    producer = Producer(path, "x")
    producer.producer_id, producer.epoch = response.producer_id, response.producer_epoch
    producer.add(T0)
    # Longer than any timeout that has a number.
    path.virtual.clock.ms += 1 << 33
    path.transactions.abort_timed_out()
    path.run()
    assert path.status("x") == "Ongoing"


def test_two_phase_commits_are_refused_as_kafka_does(path: TransactionPath) -> None:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000, enable_2pc=True)
    assert path.ask(request, 6).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000, keep_prepared_txn=True)
    assert path.ask(request, 6).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unused_id_is_forgotten(make_path: Callable[..., TransactionPath]) -> None:
    path = make_path(
        transactional_id_expiration_ms="100000", transaction_remove_expired_transaction_cleanup_interval_ms="10000"
    )
    idle, ended, busy = (Producer(path, name, timeout_ms=900_000) for name in ("idle", "ended", "busy"))
    for producer in (idle, ended, busy):
        producer.init()
    busy.add(T0)
    ended.add(T1)
    ended.commit()
    path.advance(99_000)
    assert len(path.ask(ListTransactionsRequest()).transaction_states) == 3
    path.advance(10_000)
    (left,) = path.ask(ListTransactionsRequest()).transaction_states
    assert left.transactional_id == "busy"
    assert ended.add(T1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    path.crash()
    path.start()
    assert set(path.shard_of("idle").transactions) | set(path.shard_of("busy").transactions) == {"busy"}
    assert (idle.init(), idle.epoch) == (NONE, 0)


def test_a_new_transaction_has_a_new_time(path: TransactionPath) -> None:
    producer = Producer(path, "x", timeout_ms=20_000)
    producer.init()
    for _ in range(3):
        producer.add(T0)
        path.advance(15_000)
        producer.commit()
    assert path.status("x") == "CompleteCommit"


def test_a_new_id_is_an_empty_transaction() -> None:
    transaction = Transaction("x", producer_id=4)
    assert (transaction.status, transaction.producer_epoch) == (TransactionStatus.EMPTY, -1)
