"""Topic administration: the topics of the run are created first, short-lived topics while it lasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.sim.tasks import sleep
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.peers import PeerUnreachable

__all__ = ["ChurnTopics", "CreateTopics", "partitions_of"]

MAY_EXIST = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class CreateTopics(Workload):
    """Creates topics, with as many retries as necessary."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        topics: Mapping[str, int],
        *,
        replication_factor: int,
        configs: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(stage, name)
        self._topics = topics
        self._replication_factor = replication_factor
        self._configs = configs

    async def run(self) -> None:
        missing = dict(self._topics)
        while missing:
            request = CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=count,
                        replication_factor=self._replication_factor,
                        configs=[CreatableTopicConfig(name=key, value=value) for key, value in self._configs],
                    )
                    for name, count in missing.items()
                ],
                timeout_ms=5_000,
            )
            try:
                response = await self.client.ask_any(request, CreateTopicsResponse)
            except PeerUnreachable:
                await self.client.back_off()
                continue
            for row in response.topics:
                if row.error_code in MAY_EXIST:
                    missing.pop(row.name, None)
            if missing:
                await self.client.back_off()


class ChurnTopics(Workload):
    """Creates and deletes a topic of one name repeatedly."""

    def __init__(self, stage: Stage, name: str, *, replication_factor: int, pause_seconds: float) -> None:
        super().__init__(stage, name)
        self._replication_factor = replication_factor
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        exists = False
        topic = f"{self.name}-topic"
        while not self.stage.is_ending or exists:
            try:
                if exists:
                    deleted = await self.client.ask_any(
                        DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5_000),
                        DeleteTopicsResponse,
                    )
                    error = ErrorCode(deleted.responses[0].error_code)
                    exists = error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    created = await self.client.ask_any(
                        CreateTopicsRequest(
                            topics=[
                                CreatableTopic(
                                    name=topic, num_partitions=2, replication_factor=self._replication_factor
                                )
                            ],
                            timeout_ms=5_000,
                        ),
                        CreateTopicsResponse,
                    )
                    error = ErrorCode(created.topics[0].error_code)
                    exists = error in MAY_EXIST
                self.client.kernel.counts[f"topic churn: {error.name}"] += 1
            except PeerUnreachable:
                # The outcome is unknown. Deleting a topic that does not exist is harmless.
                exists = True
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))


def partitions_of(topics: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(name, index) for name, count in topics.items() for index in range(count)]
