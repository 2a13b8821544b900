"""A member of a consumer group (KIP-848) under the test's control: it follows the coordinator when the test says so."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support.group_path import GroupPath

__all__ = ["ConsumerMember"]


class ConsumerMember:
    """`join`, `beat` and `leave` send a request and return its error code; `last` has the answer."""

    def __init__(
        self,
        path: GroupPath,
        group_id: str,
        member_id: str,
        *,
        topics: tuple[str, ...] | None = ("t",),
        regex: str | None = None,
        instance_id: str | None = None,
        rack_id: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 30_000,
    ) -> None:
        self.path = path
        self.group_id = group_id
        self.member_id = member_id
        self.topics = topics
        self.regex = regex
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.assignor = assignor
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.epoch = 0
        self.owned: dict[Uuid, set[int]] = {}
        self.assigned: dict[Uuid, set[int]] = {}
        self.last = ConsumerGroupHeartbeatResponse()

    def join(self) -> ErrorCode:
        """Sends a full request at epoch 0: the member owns no partition, or has given all partitions up."""
        self.epoch = 0
        self.owned = {}
        self.assigned = {}
        return self._send(self._full())

    def beat(self, *, full: bool = False, tell_owned: bool = True) -> ErrorCode:
        if full:
            return self._send(self._full())
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            topic_partitions=self._owned() if tell_owned else None,
        )
        return self._send(request)

    def leave(self, epoch: int = -1) -> ErrorCode:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.last = self.path.ask(request, 1)
        return ErrorCode(self.last.error_code)

    def converge(self) -> None:
        """Adopts the assignment, gives up all other partitions, and reports it with a heartbeat."""
        self.owned = {topic_id: set(partitions) for topic_id, partitions in self.assigned.items()}
        assert self.beat() is ErrorCode.NONE, self.last.error_message

    def partitions(self, topic_id: Uuid) -> set[int]:
        return self.assigned.get(topic_id, set())

    @property
    def count(self) -> int:
        return sum(map(len, self.assigned.values()))

    def _full(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            subscribed_topic_names=None if self.topics is None else list(self.topics),
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=self._owned(),
        )

    def _owned(self) -> list[TopicPartitions]:
        return [
            TopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in self.owned.items()
            if partitions
        ]

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
        self.last = self.path.ask(request, 1)
        code = ErrorCode(self.last.error_code)
        if code is ErrorCode.NONE:
            self.epoch = self.last.member_epoch
            if self.last.assignment is not None:
                self.assigned = {
                    topic_partition.topic_id: set(topic_partition.partitions)
                    for topic_partition in self.last.assignment.topic_partitions
                }
        return code
