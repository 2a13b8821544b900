"""A compacted topic that was just created, and one whose records cannot be replayed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client import compacted
from ottla.client.cluster import Cluster
from ottla.client.compacted import CompactedReader, create_compacted_topic
from ottla.client.metadata import TopicInfo
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

ONE = TopicPartition("t", 0)


def test_a_broker_that_does_not_know_the_new_topic_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just started, or has not applied the creation yet, does not know the topic."""
    refreshed_topics: list[list[str]] = []
    settings = ClientSettings(bootstrap_servers=(), retry_backoff_ms=1, retry_backoff_max_ms=1)

    class Topics:
        def __init__(self, _cluster: object) -> None:
            pass

        async def create(self, new: list[Any]) -> dict[str, KafkaError]:
            return {new[0].name: KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)}

    class Configs:
        def __init__(self, _cluster: object) -> None:
            pass

        async def describe(self, resources: list[Any], **_: object) -> dict[Any, Any]:
            return {resources[0]: KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}

    async def scenario() -> None:
        cluster = Cluster(settings)

        async def refresh(topics: list[str], **_: object) -> Any:
            refreshed_topics.append(topics)
            error = None if len(refreshed_topics) > 3 else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            cluster.metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, {}, error)
            return cluster.metadata

        monkeypatch.setattr(cluster, "refresh", refresh)
        await create_compacted_topic(cluster, "t")

    monkeypatch.setattr(compacted, "Topics", Topics)
    monkeypatch.setattr(compacted, "Configs", Configs)
    asyncio.run(scenario())
    assert refreshed_topics == [[], ["t"], ["t"], ["t"]]


def test_a_record_that_cannot_be_replayed_ends_the_wait() -> None:
    def refuse(record: Any) -> None:
        raise ValueError(f"no {record}")

    async def scenario() -> None:
        reader = CompactedReader(ClientSettings(bootstrap_servers=()), "t", refuse)

        async def poll(_: int) -> list[str]:
            return ["record"]

        consumer: Any = SimpleNamespace(position=lambda _: 0, poll=poll)
        reader._consumer = consumer
        reading = asyncio.ensure_future(reader._read(consumer))
        with pytest.raises(ValueError, match="no record"):
            await reader.wait_for(ONE, 1)
        await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(scenario())
