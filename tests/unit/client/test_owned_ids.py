"""A broker with old metadata must not make a member give its partitions up in its heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.metadata import TopicInfo
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from tests.unit.client.scripted_coordinator import ONE, TOPIC, TOPIC_ID, Cluster


def owned_in_heartbeat(spoil: Callable[[Any], object]) -> list[tuple[Uuid, list[int]]]:
    async def scenario() -> list[tuple[Uuid, list[int]]]:
        cluster: Any = Cluster()

        async def rebalance(*_: Any) -> None: ...

        member = ConsumerMembership(cluster, ConsumerSettings(group_id="g"), TOPIC, rebalance)
        await member.poll()
        while not member._owned:
            await asyncio.sleep(0)
            await member.poll()
        assert member._owned == [ONE]
        spoil(cluster.metadata)
        request: Any = member._request()
        await member._stop_heartbeats()
        return [(topic.topic_id, list(topic.partitions)) for topic in request.topic_partitions]

    return asyncio.run(scenario())


def test_a_broker_that_does_not_know_the_topic_yet() -> None:
    def spoil(metadata: Any) -> None:
        # What MetadataCache._update_topic makes of UNKNOWN_TOPIC_OR_PARTITION.
        error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, {}, error)

    assert owned_in_heartbeat(spoil) == [(TOPIC_ID, [0])]


def test_a_list_of_all_topics_without_it() -> None:
    assert owned_in_heartbeat(lambda metadata: metadata.topics.clear()) == [(TOPIC_ID, [0])]


def test_a_topic_that_was_created_again() -> None:
    def spoil(metadata: Any) -> None:
        metadata.topics["t"] = metadata.topics["t"]._replace(topic_id=Uuid(b"n" * 16))

    assert owned_in_heartbeat(spoil) == [(TOPIC_ID, [0])]
