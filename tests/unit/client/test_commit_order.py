"""Commits in the background keep their order; the last commit before partitions are given up does not fail silently."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.measures import ConsumerMeasures
from ottla.client.metadata import BrokerNode
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

ONE = TopicPartition("t", 0)


class Coordinating:
    closed = False

    def __init__(self) -> None:
        self.stored = -1
        self.refusals = [ErrorCode.NOT_COORDINATOR]
        self.asked: list[int] = []

    def version_of(self, *_: Any) -> int:
        return 4

    async def ask(self, request: Any, **_: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)])
        offset = request.topics[0].partitions[0].committed_offset
        self.asked.append(offset)
        code = self.refusals.pop(0) if self.refusals else 0
        if not code:
            self.stored = offset
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])


def commits_to(broker: Any, settings: ConsumerSettings) -> Commits:
    cluster = Cluster(ClientSettings(bootstrap_servers=()))
    cluster.metadata.brokers[1] = BrokerNode(1, "h", 1, None)

    async def connection(*_: Any) -> Any:
        return broker

    cluster.node_connection = cluster.any_connection = connection  # type: ignore[method-assign]
    return Commits(cluster, settings, ConsumerMeasures(), ConsumerInterceptors(()), lambda: {ONE: CommittedOffset(30)})


def test_the_last_commit_in_the_background_counts() -> None:
    async def whole() -> None:
        broker = Coordinating()
        commits = commits_to(broker, ConsumerSettings(group_id="g", auto_commit=False))
        errors: list[Any] = []
        # The coordinator moves: the first commit is refused, and asked for again after retry.backoff.ms.
        commits.commit_async({ONE: CommittedOffset(10)}, lambda _, error: errors.append(error))
        await asyncio.sleep(0.02)
        commits.commit_async({ONE: CommittedOffset(20)}, lambda _, error: errors.append(error))
        await commits.wait_pending()
        assert broker.stored == 20

    asyncio.run(whole())


def test_a_commit_that_fails_before_partitions_are_given_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        broker = Coordinating()
        broker.refusals = [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH]
        commits = commits_to(broker, ConsumerSettings(group_id="g"))
        await commits.commit_last()
        assert broker.stored == -1
        assert "The last commit of group g failed" in caplog.text
        caplog.clear()
        # The next heartbeat renews a stale epoch, so this commit is repeated.
        await commits.commit_last()
        assert broker.stored == 30
        assert not caplog.text

    asyncio.run(whole())
