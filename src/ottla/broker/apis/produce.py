"""Produce (key 0), versions 3 to 13; versions 0 to 2 are advertised for old librdkafka but not served (KAFKA-18659).

- 3: record batches of magic 2, exactly one per partition, and the transactional id
- 5: answers carry the log's start offset
- 7: zstd
- 8: answers name the records at fault (KIP-467)
- 9: flexible
- 10: answers tell who leads when we do not (KIP-951)
- 13: topics are named by id (KIP-516)

Deliberate gap: transactions. A transactional batch is refused with INVALID_TXN_STATE, since no transaction can be open.

With acks=0 there is no answer; as in Apache Kafka an error then closes the connection, the only sign a client can get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import CloseConnection, RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.appends import append
from ottla.replica.partition import ACKS_ALL, Partition
from ottla.replica.producing import WaitingProduce, fill_appended, fill_error
from ottla.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replica.manager import HostedTopic, ReplicaManager

__all__ = ["error_response", "handle"]

_LEADER_HINT_VERSION = 10
_TOPIC_ID_VERSION = 13
_ATTRIBUTES_LOW_BYTE = 22
_TRANSACTIONAL_BIT = 0x10
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# The client id that Kafka's own administration tools use to repair internal topics.
_ADMIN_CLIENT_ID = "__admin_client"


def handle(
    request: ProduceRequest, context: RequestContext, broker: Broker
) -> ProduceResponse | Deferred[ProduceResponse] | None:
    acks = request.acks
    if not -1 <= acks <= 1:
        return error_response(request, context.api_version, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS))
    response = ProduceResponse()
    waiting: WaitingProduce | None = None
    replicas = broker.replicas
    has_errors = False
    for topic in request.topic_data:
        hosted = _hosted_topic(topic, context, replicas)
        topic_error = None if hosted is not None and request.transactional_id is None else _topic_error(topic, request, context, replicas)
        answers: list[PartitionProduceResponse] = []
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    return response
