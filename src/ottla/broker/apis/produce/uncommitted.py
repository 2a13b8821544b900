"""What becomes of a produce request that `shortcut` has written, but whose followers have still to fetch it.

With acks=all and more than one replica that is every request. It waits as any other does, by the same rules
(`ottla.replica.producing`), but its answer is packed already: where all goes well, which is nearly always, those bytes
are sent. Where it does not (the lead is lost, too few are in sync, the time is over), the answer is made of messages.

Nothing here holds on to the frame, so that its buffer is free for the next request meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.produce.handler import LEADER_HINT_VERSION, TOPIC_ID_VERSION, add_leader_hints
from ottla.model.deferred import Deferred
from ottla.replica.partition import ACKS_ALL
from ottla.replica.producing import WaitingProduce, fill_appended
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.replica.manager import HostedTopic
    from ottla.replica.parked import Parking
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

__all__ = ["Written"]


class Written:
    """A request whose batches are all in their logs. From here on it stands for the request."""

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
        """What an error is answered for."""
        data = [PartitionProduceData(index=index) for index, _, _ in self._outcomes]
        return [TopicProduceData(name=self._hosted.name, topic_id=self._hosted.topic_id, partition_data=data)]

    def wait(self, context: RequestContext, broker: Broker) -> ProduceResponse | Deferred[ProduceResponse]:
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
        waiting = _WaitingWritten(broker.replicas.parking, response, on_lead_lost=on_lead_lost, body=self._body)
        for index, partition, result in self._outcomes:
            answer = PartitionProduceResponse(index=index)
            fill_appended(answer, result)
            answers.append(answer)
            waiting.wait_for_safety(answer, partition, result)
        return waiting.start(self._timeout_ms)


class _WaitingWritten(WaitingProduce):
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
            self.unpark(_PackedAnswer(self._body))


class _PackedAnswer(ProduceResponse):
    """An answer without an error that brings along what the encoder would make of it."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body
