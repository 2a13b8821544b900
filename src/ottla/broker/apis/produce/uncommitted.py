"""A produce request that `shortcut` has appended while its followers have not fetched it yet (acks=all).

With more than one replica, that is every request. It waits by the same rules as any other (`ottla.replica.producing`),
but its answer is packed already. If every partition is committed, which is nearly always, those bytes are sent. If not
(leadership was lost, too few replicas are in sync, the timeout is over), the answer is made of messages.

Nothing here holds a reference to the frame, so its buffer is free for the next request meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.produce.handler import LEADER_HINT_VERSION, TOPIC_ID_VERSION, add_leader_hints
from ottla.model.deferred import Deferred
from ottla.replica.partition import ACKS_ALL
from ottla.replica.producing import ProduceAnswer, WaitingProduce, fill_appended
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
    from ottla.replica.manager import HostedTopic
    from ottla.replica.parked import Parking
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

__all__ = ["THROTTLE_POSITION", "UncommittedProduce"]

# In the flexible versions of the answer only the tagged fields follow the throttle time.
THROTTLE_POSITION = -5


class UncommittedProduce:
    """Stands for the request from the append on: `wait` handles it, and an error is answered for its topics."""

    __slots__ = ("_body", "_hosted", "_outcomes", "_timeout_ms", "acks")

    def __init__(
        self,
        hosted: HostedTopic,
        outcomes: list[tuple[int, Partition, AppendResult]],
        *,
        timeout_ms: int,
        body: bytes,
    ) -> None:
        self.acks = ACKS_ALL
        self._hosted = hosted
        self._outcomes = outcomes
        self._timeout_ms = timeout_ms
        self._body = body

    @property
    def topic_data(self) -> list[TopicProduceData]:
        """The topics and partitions of the request, without records."""
        data = [PartitionProduceData(index=index) for index, _, _ in self._outcomes]
        return [TopicProduceData(name=self._hosted.name, topic_id=self._hosted.topic_id, partition_data=data)]

    def wait(self, context: RequestContext, broker: Broker) -> ProduceAnswer | Deferred[ProduceAnswer]:
        answers: list[PartitionProduceResponse] = []
        topic = TopicProduceResponse(partition_responses=answers)
        if context.api_version >= TOPIC_ID_VERSION:
            topic.topic_id = self._hosted.topic_id
        else:
            topic.name = self._hosted.name
        response = ProduceResponse(responses=[topic])
        on_lead_lost = None
        if context.api_version >= LEADER_HINT_VERSION:
            on_lead_lost = partial(add_leader_hints, response, context, broker.replicas)
        waiting = _WaitingForReplicas(broker.replicas.parking, response, on_lead_lost=on_lead_lost, body=self._body)
        for index, partition, result in self._outcomes:
            answer = PartitionProduceResponse(index=index)
            fill_appended(answer, result)
            answers.append(answer)
            waiting.wait_for_safety(answer, partition, result)
        return waiting.start(self._timeout_ms)


class _WaitingForReplicas(WaitingProduce):
    __slots__ = ("_body",)

    def __init__(
        self, parking: Parking, response: ProduceResponse, *, on_lead_lost: Callable[[], Any] | None, body: bytes
    ) -> None:
        super().__init__(parking, response, required_acks=ACKS_ALL, on_lead_lost=on_lead_lost)
        self._body = body

    def finish(self) -> None:
        if self.has_errors:
            super().finish()
        else:
            self.unpark(PackedResponse(self._body, throttle_position=THROTTLE_POSITION))
