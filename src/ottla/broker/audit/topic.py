"""Audit events in the topic `__audit`: the key of a record is the principal, the value the event.

The topic is created with the first event. A node writes to a partition that it leads, if there is one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.broker.internal_topics import AUDIT_TOPIC, automatic_topic
from ottla.broker.local_calls import ask_broker
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from ottla.broker.audit.trail import Line
    from ottla.broker.broker import Broker
    from ottla.wire.message import Message

__all__ = ["AuditTopic"]

TIMEOUT_MS = 5_000
_ACKS_LEADER = 1


class AuditTopic:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Built by `prepare` for the `write` that follows.
        self._batch = bytearray()

    def prepare(self, lines: list[Line]) -> None:
        self._batch = build_batch([Record(key=_key(line), value=line.text, timestamp=line.time_ms) for line in lines])

    def write(self, lines: list[Line]) -> Deferred[None]:  # noqa: ARG002
        broker = self._broker
        topic = broker.metadata.image.topics.by_name.get(AUDIT_TOPIC)
        if topic is None:
            return self._create()
        leaders = {index: partition.leader for index, partition in topic.partitions.items()}
        own = [index for index, leader in leaders.items() if leader == broker.node_id]
        index = own[0] if own else broker.node_id % len(leaders)
        data = PartitionProduceData(index=index, records=memoryview(self._batch))
        request = ProduceRequest(
            acks=_ACKS_LEADER,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=AUDIT_TOPIC, topic_id=topic.topic_id, partition_data=[data])],
        )
        return ask_broker(broker, leaders[index], request, purpose="audit").then(_check)

    def close(self) -> None:
        """There is nothing to close."""

    def _create(self) -> Deferred[None]:
        """Fails, because nothing is written; the next attempt finds the topic."""
        request = CreateTopicsRequest(topics=[automatic_topic(AUDIT_TOPIC, self._broker.config)], timeout_ms=TIMEOUT_MS)
        creation = self._broker.controller.ask(request)

        def fail(response: object) -> None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{AUDIT_TOPIC} is being created ({response!r:.200})"
            )

        return creation.then(fail)


def _key(line: Line) -> bytes | None:
    principal = json.loads(line.text).get("principal")
    return None if principal is None else str(principal).encode()


def _check(response: Message) -> None:
    assert isinstance(response, ProduceResponse)
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise KafkaError(ErrorCode(partition.error_code), partition.error_message)
