"""AddPartitionsToTxn (key 24), versions 0 to 5: adds partitions to transactions.

- 0-3: from producers, one transaction; 2: PRODUCER_FENCED; 3: flexible
- 4, 5: from brokers, several transactions at once, to add partitions or only to ask (KIP-890); 5: TRANSACTION_ABORTABLE

A partition that is unknown or denied fails its whole transaction: the other partitions get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.metadata.topic_names import is_internal
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITH_PRODUCER_FENCED = 2
# From this version on, brokers send the request.
FIRST_VERSION_OF_BROKERS = 4

_Codes = Mapping[TopicPartition, ErrorCode]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext, broker: Broker
) -> Deferred[AddPartitionsToTxnResponse]:
    version = context.api_version
    if version >= FIRST_VERSION_OF_BROKERS:
        if not context.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        transactions = request.transactions
    else:
        transactions = [_single(request)]

    def attempt(transaction: AddPartitionsToTxnTransaction) -> Deferred[_Codes]:
        return _attempt(transaction, context, broker).recover(
            KafkaError, lambda error: dict.fromkeys(_partitions(transaction), _code_for_version(error.code, version))
        )

    results = gather([attempt(transaction) for transaction in transactions])
    return results.then(lambda results: _response(version, transactions, results))


def error_response(request: AddPartitionsToTxnRequest, version: int, error: KafkaError) -> AddPartitionsToTxnResponse:
    if version >= FIRST_VERSION_OF_BROKERS:
        return AddPartitionsToTxnResponse(error_code=error.code)
    single = _single(request)
    return _response(version, [single], [dict.fromkeys(_partitions(single), _code_for_version(error.code, version))])


def _attempt(transaction: AddPartitionsToTxnTransaction, context: RequestContext, broker: Broker) -> Deferred[_Codes]:
    partitions = _partitions(transaction)
    is_client = context.api_version < FIRST_VERSION_OF_BROKERS
    if is_client and not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return Deferred.failed(KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    topics = broker.metadata.image.topics
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        name = partition.topic
        if is_client and (is_internal(name) or not context.allows(Operation.WRITE, ResourceType.TOPIC, name)):
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topics.partition(*partition) is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        return Deferred.resolved(
            {partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions}
        )
    wanted = frozenset(partitions)
    if transaction.verify_only:
        return broker.transactions.verify_partitions(transaction, wanted).then(lambda codes: codes)
    added = broker.transactions.add_partitions(transaction, wanted, client_version=0 if is_client else 2)
    return added.then(lambda _: dict.fromkeys(partitions, ErrorCode.NONE))


def _single(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """The code for a fenced producer, which differs before version 2."""
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _response(
    version: int, transactions: list[AddPartitionsToTxnTransaction], results: list[_Codes]
) -> AddPartitionsToTxnResponse:
    if version < FIRST_VERSION_OF_BROKERS:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(results[0]))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=_by_topic(codes))
            for transaction, codes in zip(transactions, results, strict=True)
        ]
    )


def _by_topic(codes: _Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics.setdefault(topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()]


API = Api(
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    handle=handle,
    error_response=error_response,
    portions=(
        # A transaction is not cut: an unknown partition fails all of it.
        Portions(request=("transactions",), response=("results_by_transaction",), size=100),
        Portions(
            request=("v3_and_below_topics", "partitions"),
            response=("results_by_topic_v3_and_below", "results_by_partition"),
            refuses_only=True,
        ),
    ),
    elements_max=20_000,
)
