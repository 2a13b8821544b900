"""Decisions about producer ids: brokers get blocks of a thousand, and no id is issued twice (KIP-730)."""

from __future__ import annotations

from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.controller.partitions import check_broker_epoch
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.metadata_records import ProducerIdsRecord

__all__ = ["PRODUCER_ID_BLOCK_SIZE", "decide_allocate_producer_ids"]

PRODUCER_ID_BLOCK_SIZE = 1000
_PRODUCER_ID_MAX = (1 << 63) - 1


def decide_allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: DecisionContext
) -> Decision[AllocateProducerIdsResponse]:
    check_broker_epoch(context.image, request.broker_id, request.broker_epoch)
    first = context.image.producer_ids.next_producer_id
    if first > _PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "there are no producer ids left")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return Decision([record], response)
