"""Commits in the background keep their order; the last commit before partitions are given up does not fail silently."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.consumer import commits as commits_module
from ottla.client.consumer.commits import Commits
from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.listeners import FunctionListener
from ottla.client.consumer.membership import Identity
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
        # True while commits stay unanswered, and true while the coordinator is unknown.
        self.is_busy = False
        self.is_lost = False

    def version_of(self, *_: Any) -> int:
        return 4

    async def ask(self, request: Any, **_: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(request, FindCoordinatorRequest):
            while self.is_lost:
                await asyncio.sleep(0.001)
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)])
        offset = request.topics[0].partitions[0].committed_offset
        self.asked.append(offset)
        while self.is_busy:
            await asyncio.sleep(0.001)
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
    async def scenario() -> None:
        broker = Coordinating()
        commits = commits_to(broker, ConsumerSettings(group_id="g", auto_commit=False))
        errors: list[Any] = []
        # The coordinator moves: the first commit is refused, and asked for again after retry.backoff.ms.
        commits.commit_async({ONE: CommittedOffset(10)}, lambda _, error: errors.append(error))
        await asyncio.sleep(0.02)
        commits.commit_async({ONE: CommittedOffset(20)}, lambda _, error: errors.append(error))
        await commits.wait_pending()
        assert broker.stored == 20

    asyncio.run(scenario())


def test_a_commit_that_fails_before_partitions_are_given_up_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_partitions_are_not_given_up_while_their_last_commit_is_on_its_way(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator would refuse it afterwards, although it was only slow."""
    monkeypatch.setattr(commits_module, "_QUIET_SECONDS_MAX", 0.01)

    async def scenario() -> None:
        broker = Coordinating()
        broker.refusals = []
        broker.is_busy = True
        commits = commits_to(broker, ConsumerSettings(group_id="g"))
        last = asyncio.ensure_future(commits.commit_last())
        await asyncio.sleep(0.05)
        assert broker.asked == [30]
        assert not last.done()
        broker.is_busy = False
        await last
        assert broker.stored == 30
        assert not caplog.text

    asyncio.run(scenario())


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_last_commit_that_is_not_on_its_way_is_given_up(
    *, is_lost: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "_QUIET_SECONDS_MAX", 0.01)

    async def scenario() -> None:
        broker = Coordinating()
        broker.is_lost = is_lost
        broker.refusals = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100
        commits = commits_to(broker, ConsumerSettings(group_id="g"))
        async with asyncio.timeout(5):
            await commits.commit_last()
        assert broker.stored == -1
        assert "The last commit of group g failed" in caplog.text

    asyncio.run(scenario())


def test_a_last_commit_that_is_cancelled_ends_at_once() -> None:
    async def scenario() -> None:
        broker = Coordinating()
        broker.is_busy = True
        commits = commits_to(broker, ConsumerSettings(group_id="g"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await commits.commit_last()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_a_commit_in_the_background_takes_no_time_from_the_last_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The background commit is awaited before partitions are revoked."""
    monkeypatch.setattr(commits_module, "_QUIET_SECONDS_MAX", 0.01)

    async def scenario() -> None:
        broker = Coordinating()
        broker.refusals = []
        broker.is_busy = True
        commits = commits_to(broker, ConsumerSettings(group_id="g"))
        commits.commit_async({ONE: CommittedOffset(10)}, None)
        last = asyncio.ensure_future(commits.commit_last())
        await asyncio.sleep(0.05)
        broker.is_busy = False
        await last
        assert broker.stored == 30
        assert not caplog.text

    asyncio.run(scenario())


@pytest.mark.parametrize("leaves", [True, False])
def test_a_commit_in_the_background_that_a_listener_asks_for_comes_before_partitions_are_given_up(
    *, leaves: bool
) -> None:
    """On another connection, it might come after the join or the leave, and be refused."""

    async def scenario() -> None:
        broker = Coordinating()
        broker.refusals = []
        consumer = Consumer(
            commits_to(broker, ConsumerSettings())._cluster, ConsumerSettings(group_id="g", auto_commit=False)
        )
        stored: list[int] = []

        class Member:
            is_member = True
            identity = Identity("m", 1, None)

            async def leave(self) -> None:
                stored.append(broker.stored)

        async def on_revoked(_: Any) -> None:
            consumer.commit_async({ONE: 20})

        consumer._assign([ONE])
        consumer._membership = consumer._commits.membership = Member()  # type: ignore[assignment]
        consumer._listener = FunctionListener(None, on_revoked, None)
        if leaves:
            await consumer.unsubscribe()
        else:
            await consumer._on_rebalance([ONE], [])
            stored.append(broker.stored)
        assert stored == [20]

    asyncio.run(scenario())
