"""DescribeProducers (key 61), version 0: the producers whose state a replica of a partition keeps (KIP-664).

Every replica answers, as in Apache Kafka: administrators compare a follower's state with the leader's. A partition may
have a hundred thousand producers, so also a single partition is described in slices.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.long_answers import ENTRIES_PER_SLICE
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
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: DescribeProducersRequest, context: RequestContext, broker: Broker
) -> Deferred[DescribeProducersResponse]:
    return broker.replicas.slices.start(_describe(request, context, broker))


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


def _describe(
    request: DescribeProducersRequest, context: RequestContext, broker: Broker
) -> Generator[None, None, DescribeProducersResponse]:
    response = DescribeProducersResponse()
    for topic in request.topics:
        is_allowed = context.allows(Operation.READ, ResourceType.TOPIC, topic.name)
        described = TopicResponse(name=topic.name)
        response.topics.append(described)
        for index in topic.partition_indexes:
            if is_allowed:
                partition = yield from _describe_partition(topic.name, index, broker)
            else:
                partition = _refused(index)
            described.partitions.append(partition)
    return response


def _refused(index: int) -> PartitionResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return PartitionResponse(partition_index=index, error_code=code, error_message=code.message)


def _describe_partition(topic: str, index: int, broker: Broker) -> Generator[None, None, PartitionResponse]:
    try:
        partition = broker.replicas.find(topic, index)
        partition.check_replica()
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    described = PartitionResponse(partition_index=index)
    for number, producer in enumerate(partition.log.active_producers(), 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        described.active_producers.append(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_transaction_first_offset,
            )
        )
    return described


API = Api(
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    handle=handle,
    error_response=error_response,
    portions=(
        Portions(request=("topics", "partition_indexes"), response=("topics", "partitions"), size=20, is_heavy=True),
    ),
)
