"""Requests about transactions: their authorization, and the views of administrators."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from ottla.broker.authorization import AllowAll, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from tests.support.transaction_path import Producer, TransactionPath

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = (ResourceType.TRANSACTIONAL_ID, "x")


class Denying(AllowAll):
    """Allows everything except one operation on one resource."""

    __slots__ = ("_denied",)

    def __init__(self, *denied: tuple[Operation, ResourceType, str]) -> None:
        self._denied = denied

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return (operation, resource_type, resource_name) not in self._denied


def ask_denied(path: TransactionPath, handler: Any, request: Any, version: int, *denied: Any) -> Any:
    """The answer to a client without the right to do that."""
    context = path.context(request.API_KEY, version)
    context.connection.authorizer = Denying(*denied)
    try:
        response = handler.handle(request, context, path.broker)
    except KafkaError as error:
        return handler.error_response(request, version, error)
    if isinstance(response, Deferred):
        path.run()
        return response.result()
    return response


@pytest.mark.parametrize(
    ("handler", "request_", "denied", "code"),
    [
        (
            init_producer_id,
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000),
            (Operation.WRITE, *ID),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            init_producer_id,
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000, enable_2pc=True),
            (Operation.TWO_PHASE_COMMIT, *ID),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            end_txn,
            EndTxnRequest(transactional_id="x"),
            (Operation.WRITE, *ID),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            add_offsets_to_txn,
            AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
            (Operation.WRITE, *ID),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            add_offsets_to_txn,
            AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
            (Operation.READ, ResourceType.GROUP, "g"),
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_who_may_not_is_told_so(path: TransactionPath, handler: Any, request_: Any, denied: Any, code: Any) -> None:
    assert ask_denied(path, handler, request_, 4, denied).error_code == code


def test_partitions_are_added_by_whom_may_write_to_them(path: TransactionPath) -> None:
    producer = Producer(path, "x", version=1)
    producer.init()
    request = producer.add_request(T0, ("other", 0))
    path.create_topic("other")
    response = ask_denied(path, add_partitions_to_txn, request, 3, (Operation.WRITE, ResourceType.TOPIC, "other"))
    codes = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in response.results_by_topic_v3_and_below
    }
    assert codes == {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert path.status("x") == "Empty"
    response = ask_denied(path, add_partitions_to_txn, producer.add_request(T0), 3, (Operation.WRITE, *ID))
    assert producer.added(response) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_only_brokers_speak_for_several_transactions(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    denied = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    response = ask_denied(path, add_partitions_to_txn, producer.add_request(T0), 5, denied)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert path.status("x") == "Empty"


def test_administrators_see_what_they_may(path: TransactionPath) -> None:
    path.create_topic("secret")
    for name in ("x", "y"):
        producer = Producer(path, name)
        producer.init()
        producer.add(T0, ("secret", 0))
    hidden = (Operation.DESCRIBE, *ID)
    listed = ask_denied(path, list_transactions, ListTransactionsRequest(), 2, hidden).transaction_states
    assert [state.transactional_id for state in listed] == ["y"]
    secret = (Operation.DESCRIBE, ResourceType.TOPIC, "secret")
    request = DescribeTransactionsRequest(transactional_ids=["x", "y"])
    first, second = ask_denied(path, describe_transactions, request, 0, hidden, secret).transaction_states
    assert (first.error_code, first.transactional_id) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "x")
    assert (second.error_code, [topic.topic for topic in second.topics]) == (ErrorCode.NONE, ["t"])


def test_a_list_waits_for_everything_to_be_loaded(path: TransactionPath) -> None:
    Producer(path, "x").init()
    path.stop()
    path.start(runs=False)
    assert path.begin(ListTransactionsRequest()).result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    path.run()
    assert len(path.ask(ListTransactionsRequest()).transaction_states) == 1


def test_a_list_by_duration(path: TransactionPath) -> None:
    for name in ("long", "short"):
        producer = Producer(path, name)
        producer.init()
        producer.add(T0)
        path.advance(1_000)
    for duration_ms, names in ((-1, ["long", "short"]), (1_000, ["long"]), (999, ["long", "short"]), (2_000, [])):
        listed = path.ask(ListTransactionsRequest(duration_filter=duration_ms)).transaction_states
        assert sorted(state.transactional_id for state in listed) == names, duration_ms


def test_no_coordinator_here(path: TransactionPath) -> None:
    path.transactions.runtime.close()
    producer = Producer(path, "x")
    assert producer.init() is ErrorCode.NOT_COORDINATOR
    assert producer.add(T0) is ErrorCode.NOT_COORDINATOR
    assert producer.commit() is ErrorCode.NOT_COORDINATOR
    (state,) = path.ask(DescribeTransactionsRequest(transactional_ids=["x"])).transaction_states
    assert state.error_code == ErrorCode.NOT_COORDINATOR


def test_a_request_about_no_transaction_is_answered(path: TransactionPath) -> None:
    assert path.ask(AddPartitionsToTxnRequest(transactions=[]), 5).results_by_transaction == []
