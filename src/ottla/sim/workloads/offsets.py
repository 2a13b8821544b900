"""Committed offsets: the operations of group members, and a client that only commits.

Offsets of a partition only increase: the owner fetches the committed offset and commits a higher one. The history
records what the coordinator acknowledged, and what it answers later.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.sim.client import SimClient
from ottla.sim.history import Commit, History
from ottla.sim.tasks import sleep
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.peers import PeerUnreachable

__all__ = ["CommitOffsets", "GroupOffsets"]

MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class GroupOffsets:
    """Commits and fetches the offsets of one group, and records the answers in the history."""

    def __init__(self, client: SimClient, history: History, group: str) -> None:
        self._client = client
        self._history = history
        self._group = group

    async def commit(
        self, partition: TopicPartition, offset: int, *, member: str = "", generation: int = -1
    ) -> ErrorCode | None:
        """The coordinator's answer; None if there is none, so that the outcome is unknown."""
        client = self._client
        coordinator = await client.coordinator(self._group)
        topic_id = client.topic_ids.get(partition.topic)
        if coordinator is None or topic_id is None:
            await client.refresh([partition.topic])
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        asked_us = client.kernel.now_us
        request = OffsetCommitRequest(
            group_id=self._group,
            member_id=member,
            generation_id_or_member_epoch=generation,
            topics=[
                OffsetCommitRequestTopic(
                    name=partition.topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)
                    ],
                )
            ],
        )
        error: ErrorCode | None = None
        try:
            response = await client.ask(coordinator, request, OffsetCommitResponse, purpose="group")
            error = ErrorCode(response.topics[0].partitions[0].error_code)
        except PeerUnreachable:
            client.forget_coordinator(self._group)
        commit = Commit(
            group=self._group,
            partition=partition,
            offset=offset,
            asked_us=asked_us,
            acknowledged_us=client.kernel.now_us,
        )
        if error is ErrorCode.NONE:
            self._history.commits.append(commit)
            client.kernel.counts["offset committed"] += 1
        elif error is None or error is ErrorCode.REQUEST_TIMED_OUT or error in MOVED:
            # The commit may have been written: the leader may have failed after its append.
            self._history.uncertain_commits.append(commit)
        if error is not None and error is not ErrorCode.NONE:
            client.kernel.counts[f"commit: {error.name}"] += 1
            if error in MOVED:
                client.forget_coordinator(self._group)
        return error

    async def fetch(self, partition: TopicPartition) -> int | None:
        """The committed offset, -1 if there is none; None if the coordinator did not answer."""
        client = self._client
        coordinator = await client.coordinator(self._group)
        topic_id = client.topic_ids.get(partition.topic)
        if coordinator is None or topic_id is None:
            await client.refresh([partition.topic])
            return None
        asked_us = client.kernel.now_us
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self._group,
                    topics=[
                        OffsetFetchRequestTopics(
                            name=partition.topic, topic_id=topic_id, partition_indexes=[partition.partition]
                        )
                    ],
                )
            ],
            require_stable=True,
        )
        try:
            response = await client.ask(coordinator, request, OffsetFetchResponse, purpose="group")
        except PeerUnreachable:
            client.forget_coordinator(self._group)
            return None
        group = response.groups[0]
        row = group.topics[0].partitions[0] if group.topics else None
        if group.error_code or row is None or row.error_code:
            client.forget_coordinator(self._group)
            return None
        self._history.fetched_commits.append(
            Commit(
                group=self._group,
                partition=partition,
                offset=row.committed_offset,
                asked_us=asked_us,
                acknowledged_us=client.kernel.now_us,
            )
        )
        client.kernel.counts["offset fetched"] += 1
        return row.committed_offset


class CommitOffsets(Workload):
    """A client without members: it commits offsets for its own group id, and fetches them again."""

    def __init__(self, stage: Stage, name: str, partitions: Sequence[TopicPartition], *, pause_seconds: float) -> None:
        super().__init__(stage, name)
        self._partitions = partitions
        self._pause_seconds = pause_seconds
        self._offsets = GroupOffsets(self.client, stage.history, f"{name}-group")

    async def run(self) -> None:
        offset = 0
        while not self.stage.is_ending:
            offset += 1
            for partition in self._partitions:
                await self._offsets.commit(partition, offset)
                if self.random.random() < 0.3:
                    await self._offsets.fetch(partition)
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))
        for partition in self._partitions:
            while await self._offsets.fetch(partition) is None:
                await self.client.back_off()
