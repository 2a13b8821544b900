"""DescribeProducers (key 61), version 0: the producers whose state a replica of a partition keeps (KIP-664).

Every replica answers, as in Apache Kafka: administrators compare a follower's state with the leader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: DescribeProducersRequest, context: RequestContext, broker: Broker) -> DescribeProducersResponse:
    topics: list[TopicResponse] = []
    for topic in request.topics:
        is_allowed = context.allows(Operation.READ, ResourceType.TOPIC, topic.name)
        answers = [
            _describe(topic.name, index, broker)
            if is_allowed
            else PartitionResponse(partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for index in topic.partition_indexes
        ]
        topics.append(TopicResponse(name=topic.name, partitions=answers))
    return DescribeProducersResponse(topics=topics)


def error_response(
    request: DescribeProducersRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=error.code) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(topic: str, index: int, broker: Broker) -> PartitionResponse:
    try:
        partition = broker.replicas.find(topic, index)
        partition.check_replica()
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_transaction_first_offset,
            )
            for producer in partition.log.active_producers()
        ],
    )


API = Api(
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("topics", "partition_indexes"), response=("topics", "partitions"), size=20),),
)
