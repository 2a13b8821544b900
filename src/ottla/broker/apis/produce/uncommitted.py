"""A produce request that `shortcut` has appended while its followers have not fetched it yet (acks=all).

With more than one replica, this is the case for every request. It waits by the same rules as other produce requests
(`ottla.replica.producing`), but its answer is already packed. Those bytes are sent if every partition is committed,
which is nearly always so. Otherwise (leadership was lost, too few replicas are in sync, the timeout has expired), the
answer is made of messages.

This module holds no reference to the frame, so its buffer is free for the next request meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.produce.handler import LEADER_HINT_VERSION, TOPIC_ID_VERSION, add_leader_hints
from ottla.replica.partition import ACKS_ALL
from ottla.replica.producing import PartitionAnswer, ProduceAnswer, WaitingProduce, fill_appended
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred
    from ottla.model.errors import KafkaError
    from ottla.replica.manager import HostedTopic, ReplicaManager
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

__all__ = ["THROTTLE_POSITION", "UncommittedProduce"]

# In the flexible versions of the answer only the tagged fields follow the throttle time.
THROTTLE_POSITION = -5


class UncommittedProduce(WaitingProduce):
    """Stands for the request from the append on: `wait` handles it, and an error is answered for its topics."""

    __slots__ = ("_body", "_context", "_hosted", "_outcomes", "_replicas", "_timeout_ms", "acks")

    def __init__(
        self,
        replicas: ReplicaManager,
        context: RequestContext,
        hosted: HostedTopic,
        outcomes: list[tuple[int, Partition, AppendResult]],
        *,
        timeout_ms: int,
        body: bytes,
    ) -> None:
        super().__init__(replicas.parking, None, required_acks=ACKS_ALL)
        self.acks = ACKS_ALL
        self._replicas = replicas
        self._context = context
        self._hosted = hosted
        self._outcomes = outcomes
        self._timeout_ms = timeout_ms
        self._body = body

    @property
    def topic_data(self) -> list[TopicProduceData]:
        """The topics and partitions of the request, without records."""
        data = [PartitionProduceData(index=index) for index, _, _ in self._outcomes]
        return [TopicProduceData(name=self._hosted.name, topic_id=self._hosted.topic_id, partition_data=data)]

    def wait(self, _context: RequestContext, _broker: Broker) -> ProduceAnswer | Deferred[ProduceAnswer]:
        for position, (_, partition, result) in enumerate(self._outcomes):
            self.wait_for_safety(position, partition, result)
        return self.start(self._timeout_ms)

    def response_message(self) -> ProduceResponse:
        """Made when the first partition is refused."""
        if self._response is None:
            answers: list[PartitionProduceResponse] = []
            for index, _, result in self._outcomes:
                answer = PartitionProduceResponse(index=index)
                fill_appended(answer, result)
                answers.append(answer)
            topic = TopicProduceResponse(partition_responses=answers)
            if self._context.api_version >= TOPIC_ID_VERSION:
                topic.topic_id = self._hosted.topic_id
            else:
                topic.name = self._hosted.name
            self._response = ProduceResponse(responses=[topic])
        return self._response

    def refuse(self, answer: PartitionAnswer, error: KafkaError) -> None:
        assert isinstance(answer, int)
        super().refuse(self.response_message().responses[0].partition_responses[answer], error)

    def finish(self) -> None:
        if not self.has_errors:
            self.unpark(PackedResponse(self._body, throttle_position=THROTTLE_POSITION))
            return
        response = self.response_message()
        if self._context.api_version >= LEADER_HINT_VERSION:
            add_leader_hints(response, self._context, self._replicas)
        self.unpark(response)
