"""Our administrator about streams groups (KIP-1071), with Apache Kafka, which has them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.streams_groups import DescribedStreamsGroup, StreamsTask
from ottla.client.admin.topics import NewTopic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.java.conftest import require_java
from tests.support.brokers import QuickKafka

GROUP, INPUT = "counts", "input"
LEAVES = -1


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_java()
    settings = {
        "group.streams.min.heartbeat.interval.ms": "200",
        "group.streams.heartbeat.interval.ms": "200",
        "group.coordinator.rebalance.protocols": "classic,consumer,streams",
        "offsets.topic.num.partitions": "1",
    }
    with QuickKafka(tmp_path_factory.mktemp("kafka"), settings) as broker:
        yield broker.bootstrap


class Application:
    """A member that follows the protocol of a Kafka Streams instance, and processes nothing."""

    def __init__(self, admin: AdminClient) -> None:
        self._cluster = admin.connections
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.tasks: Any = []

    async def beat(self, **first: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, **first
        )
        answer: StreamsGroupHeartbeatResponse = await self._cluster.ask_coordinator(self._cluster.GROUP, GROUP, request)
        assert answer.error_code == 0, answer.error_message
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = answer.active_tasks
        return answer

    async def join(self) -> None:
        changelog = TopicInfo(
            name="counts-store-changelog",
            replication_factor=1,
            topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
        )
        subtopology = Subtopology(subtopology_id="0", source_topics=[INPUT], state_changelog_topics=[changelog])
        await self.beat(
            rebalance_timeout_ms=60_000,
            topology=Topology(epoch=3, subtopologies=[subtopology]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="process-1",
            user_endpoint=Endpoint(host="here", port=7070),
            client_tags=[KeyValue(key="zone", value="a")],
        )
        while not self.tasks:
            await self.beat()
            await asyncio.sleep(0.1)
        await self.beat(active_tasks=self.tasks, standby_tasks=[], warmup_tasks=[])

    async def leave(self) -> None:
        self.epoch = LEAVES
        await self.beat()


async def described(admin: AdminClient) -> DescribedStreamsGroup:
    description = (await admin.streams_groups.describe([GROUP]))[GROUP]
    assert isinstance(description, DescribedStreamsGroup), description
    return description


def test_a_group_from_its_first_member_to_its_deletion(kafka: str) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(120), AdminClient({"bootstrap.servers": kafka}) as admin:
            await admin.topics.create([NewTopic(name=INPUT, partitions=2, replication_factor=1)])
            application = Application(admin)
            await application.join()
            group = await described(admin)
            assert (group.group_id, group.state, group.topology_epoch) == (GROUP, "Stable", 3)
            assert group.epoch == group.assignment_epoch > 0
            (part,) = group.subtopologies
            assert (part.subtopology_id, part.source_topics) == ("0", (INPUT,))
            (changelog,) = part.changelogs
            assert (changelog.name, dict(changelog.configs)["cleanup.policy"]) == ("counts-store-changelog", "compact")
            (member,) = group.members
            assert (member.member_id, member.process_id, member.endpoint) == (
                application.member_id,
                "process-1",
                ("here", 7070),
            )
            assert member.client_tags == {"zone": "a"}
            tasks = {StreamsTask("0", 0), StreamsTask("0", 1)}
            assert set(member.assignment.active) == set(member.target.active) == tasks
            assert member.assignment.standby == member.assignment.warmup == ()
            assert not member.is_classic
            (listed,) = await admin.streams_groups.find()
            assert (listed.group_id, listed.type.lower(), listed.state) == (GROUP, "streams", "Stable")
            assert await admin.streams_groups.find(states=["Empty"]) == []
            # With members, neither offsets nor the group can be changed.
            first = TopicPartition(INPUT, 0)
            refused = (await admin.streams_groups.alter_offsets(GROUP, {first: 5}))[first]
            assert refused is not None
            deletion_error = (await admin.streams_groups.delete([GROUP]))[GROUP]
            assert deletion_error is not None
            assert deletion_error.code is ErrorCode.NON_EMPTY_GROUP
            await application.leave()
            await after_the_last_member(admin)

    asyncio.run(scenario())


async def after_the_last_member(admin: AdminClient) -> None:
    group = await described(admin)
    assert (group.state, group.members) == ("Empty", ())
    first, second = TopicPartition(INPUT, 0), TopicPartition(INPUT, 1)
    groups = admin.streams_groups
    assert await groups.alter_offsets(GROUP, {first: 5, second: CommittedOffset(7, metadata="m")}) == {
        first: None,
        second: None,
    }
    offsets = await groups.offsets(GROUP)
    assert {partition: (committed.offset, committed.metadata) for partition, committed in offsets.items()} == {
        first: (5, ""),
        second: (7, "m"),
    }
    assert list(await groups.offsets(GROUP, [second])) == [second]
    assert await groups.delete_offsets(GROUP, [first]) == {first: None}
    assert list(await groups.offsets(GROUP)) == [second]
    assert await groups.delete([GROUP]) == {GROUP: None}
    description = (await groups.describe([GROUP]))[GROUP]
    assert isinstance(description, KafkaError)
    assert description.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_another_kind_is_none(kafka: str) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), AdminClient({"bootstrap.servers": kafka}) as admin:
            with suppress(KafkaError):
                await admin.topics.create([NewTopic(name="other", partitions=1, replication_factor=1)])
            await admin.groups.alter_offsets("classic", {TopicPartition("other", 0): 1})
            description = (await admin.streams_groups.describe(["classic"]))["classic"]
            assert isinstance(description, KafkaError)
            assert description.code is ErrorCode.GROUP_ID_NOT_FOUND
            assert "classic" not in [listing.group_id for listing in await admin.streams_groups.find()]

    asyncio.run(scenario())
