"""AddOffsetsToTxn (key 25), versions 0 to 4: the offsets of a group become part of a transaction.

- 2: PRODUCER_FENCED; 3: flexible; 4: TRANSACTION_ABORTABLE (KIP-890)

The partition of `__consumer_offsets` that holds the group's offsets is added to the transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.coordinator.group import OFFSETS_TOPIC
from ottla.coordinator.runtime.hashing import partition_for
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITH_PRODUCER_FENCED = 2


def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext, broker: Broker
) -> Deferred[AddOffsetsToTxnResponse]:
    if not context.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topic = broker.metadata.image.topics.by_name.get(OFFSETS_TOPIC)
    count = broker.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
    )
    partitions = frozenset((TopicPartition(OFFSETS_TOPIC, partition_for(request.group_id, count)),))
    added = broker.transactions.add_partitions(transaction, partitions, client_version=0)
    return added.then(lambda _: AddOffsetsToTxnResponse())


def error_response(request: AddOffsetsToTxnRequest, version: int, error: KafkaError) -> AddOffsetsToTxnResponse:  # noqa: ARG001
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


API = Api(
    request=AddOffsetsToTxnRequest,
    response=AddOffsetsToTxnResponse,
    handle=handle,
    error_response=error_response,
)
