"""TxnOffsetCommit (key 28), versions 0 to 6: commits offsets of a group in a transaction (KIP-98, KIP-447).

- 2: leader epochs; 3: flexible, group member and generation; 4: TRANSACTION_ABORTABLE
- 5: the group is added to the transaction with its first commit (KIP-890)
- 6: topics by id; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH instead of ILLEGAL_GENERATION (KIP-1319)

Offsets are written to the group's partition of `__consumer_offsets` at once and take effect with the transaction's
marker. Versions 0 and 1 get COORDINATOR_NOT_AVAILABLE while the coordinator loads, since they know no other code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.commit_topics import CheckedTopics
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.transactional import Transaction
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replica.partition import Partition

__all__ = ["API"]

Checked = CheckedTopics[TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic]

_LOADING_VERSION = 2
_ABORTABLE_VERSION = 4
_ADDING_VERSION = 5
_TOPIC_ID_VERSION = 6

_MEANINGS = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    # The transaction's coordinator could not be reached. Clients repeat the commit for this, and do not look for
    # another group coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def handle(
    request: TxnOffsetCommitRequest, context: RequestContext, broker: Broker
) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
    checked = _checked_topics(request, context, broker)
    checked.check(request.topics)
    return _commit(request, checked, context, broker)


def handle_in_slices(
    request: TxnOffsetCommitRequest, context: RequestContext, broker: Broker
) -> Deferred[TxnOffsetCommitResponse]:
    """Checks some topics in each turn of the loop. The offsets of all topics are then committed together."""
    checked = _checked_topics(request, context, broker)
    work = broker.replicas.slices.run(checked.check_in_slices(request.topics))
    return work.and_then(lambda _: Deferred.of(_commit(request, checked, context, broker)))


def _checked_topics(request: TxnOffsetCommitRequest, context: RequestContext, broker: Broker) -> Checked:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = context.api_version >= _TOPIC_ID_VERSION
    return CheckedTopics(broker.metadata.image.topics, context, _refused, by_id=by_id)


def _commit(
    request: TxnOffsetCommitRequest, checked: Checked, context: RequestContext, broker: Broker
) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
    refused = checked.refused
    if not checked.valid:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = checked.valid
    transaction = Transaction(
        request.transactional_id,
        adds_partitions=context.api_version >= _ADDING_VERSION,
        knows_abortable=context.api_version >= _ABORTABLE_VERSION,
    )

    def verify(partition: Partition) -> Deferred[None]:
        return broker.transactional_appends.verify(
            partition,
            transaction,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            now_ms=context.received_ms,
        )

    committed = broker.groups.commit_offsets_in_transaction(request, context.api_version, verify)
    answered = committed.recover(KafkaError, lambda error: error_response(request, context.api_version, error))
    return answered.then(lambda response: _merge(response, refused)) if refused else answered


def error_response(request: TxnOffsetCommitRequest, version: int, error: KafkaError) -> TxnOffsetCommitResponse:
    """Every partition gets the code: the response has no other field for it."""
    code = _MEANINGS.get(error.code, error.code)
    if version < _LOADING_VERSION and code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=[_refused(topic, topic.partitions, code) for topic in request.topics])


def _refused(
    topic: TxnOffsetCommitRequestTopic, partitions: Sequence[TxnOffsetCommitRequestPartition], code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        ],
    )


def _merge(response: TxnOffsetCommitResponse, refused: list[TxnOffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
    # A topic whose id is unknown has no name.
    answered = {(topic.name, topic.topic_id): topic for topic in response.topics}
    for topic in refused:
        answered_topic = answered.get((topic.name, topic.topic_id))
        if answered_topic is None:
            response.topics.append(topic)
        else:
            answered_topic.partitions.extend(topic.partitions)
    return response


API = Api(
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    handle=handle,
    handle_in_slices=handle_in_slices,
    error_response=error_response,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), refuses_only=True),),
    elements_max=12_000,
    refusal=ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
)
