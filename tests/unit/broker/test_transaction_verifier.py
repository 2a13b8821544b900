"""Verifications of one coordinator share requests of bounded size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import transaction_verifier
from ottla.broker.apis.add_partitions_to_txn import API
from ottla.broker.portions import _refusal
from ottla.broker.transaction_verifier import TRANSACTIONS_PER_REQUEST_MAX, CoordinatorQuestions
from ottla.coordinator.txn import TRANSACTION_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.support.virtual_world import VirtualWorld


class Bench:
    """A broker whose transactions are all coordinated by broker 2, and the requests to broker 2."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.virtual = VirtualWorld(immediate_workers=True)
        self.asked: list[tuple[AddPartitionsToTxnRequest, Deferred[Any]]] = []
        topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=2)})
        broker = SimpleNamespace(
            world=self.virtual.world,
            config=SimpleNamespace(add_partitions_to_txn_retry_backoff_max_ms=100, request_timeout_ms=1_000),
            metadata=SimpleNamespace(
                image=SimpleNamespace(
                    topics=SimpleNamespace(by_name={TRANSACTION_TOPIC: topic}),
                    brokers={2: SimpleNamespace(fenced=False)},
                )
            ),
        )

        def ask_broker(_broker: Any, node_id: int, request: Any, *, purpose: str) -> Deferred[Any]:
            assert (node_id, purpose) == (2, "transactions")
            self.asked.append((request, Deferred()))
            return self.asked[-1][1]

        monkeypatch.setattr(transaction_verifier, "ask_broker", ask_broker)
        self.questions = CoordinatorQuestions(broker)  # type: ignore[arg-type]

    def ask(
        self, transactional_id: str, index: int = 0, *, producer_id: int = 7, epoch: int = 0
    ) -> Deferred[ErrorCode]:
        transaction: Any = SimpleNamespace(
            transactional_id=transactional_id, adds_partitions=False, knows_abortable=True
        )
        return self.questions.ask(transaction, producer_id=producer_id, producer_epoch=epoch, topic="t", index=index)

    def answer(self) -> int:
        """Confirms the pending request and returns its number of transactions."""
        self.virtual.scheduler.advance(0)
        request, done = self.asked.pop()
        assert self.asked == [], "one request at a time"
        assert _refusal(API, request) is None, "the coordinator takes a request of this size"
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(partition_index=index) for index in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
        ]
        done.resolve(AddPartitionsToTxnResponse(results_by_transaction=results))
        return len(results)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_questions_of_one_turn_share_a_request(bench: Bench) -> None:
    answers = [bench.ask("a", 0), bench.ask("a", 1), bench.ask("b", 0)]
    assert bench.answer() == 2
    assert [answer.result() for answer in answers] == [ErrorCode.NONE] * 3


def test_a_request_has_a_bound_and_what_is_more_goes_next(bench: Bench) -> None:
    answers = [bench.ask(f"id-{number}") for number in range(2 * TRANSACTIONS_PER_REQUEST_MAX + 5)]
    assert bench.answer() == TRANSACTIONS_PER_REQUEST_MAX
    assert [answer.done for answer in answers].count(True) == TRANSACTIONS_PER_REQUEST_MAX
    # Later requests wait behind earlier ones.
    late = bench.ask("late")
    assert bench.answer() == TRANSACTIONS_PER_REQUEST_MAX
    assert not late.done
    assert bench.answer() == 6
    assert {answer.result() for answer in (*answers, late)} == {ErrorCode.NONE}


@pytest.mark.parametrize(("ids", "partitions"), [(1_000, 30), (1, 25_000)])
def test_a_request_is_never_too_large_for_the_coordinator(bench: Bench, ids: int, partitions: int) -> None:
    answers = [bench.ask(f"id-{number}", index) for number in range(ids) for index in range(partitions)]
    while not all(answer.done for answer in answers):
        bench.answer()
    assert {answer.result() for answer in answers} == {ErrorCode.NONE}


def test_the_older_of_two_instances_is_fenced_at_once(bench: Bench) -> None:
    zombie, valid = bench.ask("x", epoch=3), bench.ask("x", epoch=4)
    late = bench.ask("x", epoch=3)
    assert bench.answer() == 1
    assert zombie.result() is late.result() is ErrorCode.INVALID_PRODUCER_EPOCH
    assert valid.result() is ErrorCode.NONE


def test_a_later_producer_id_may_be_a_lower_one(bench: Bench) -> None:
    """Brokers allocate ids from separate blocks, so the coordinator decides which producer is fenced."""
    zombie = bench.ask("x", producer_id=1_000, epoch=32_766)
    valid = bench.ask("x", producer_id=5, epoch=0)
    assert bench.answer() == 1
    assert valid.result() is ErrorCode.NONE
    assert zombie.result().retriable
