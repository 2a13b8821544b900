"""A topic that becomes a copy is closed to clients at all of its leaders, not only at some."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings
from ottla.mirror.settings import MirrorError
from ottla.mirror.switching import release
from ottla.mirror.switching.release import wait_until_closed
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> list[set[TopicPartition]]:
    """The partitions of each round of probes; the leader of partition 1 of three learns late."""
    asked_partitions: list[set[TopicPartition]] = []

    async def probe(_cluster: Cluster, places: set[TopicPartition]) -> dict[TopicPartition, KafkaError]:
        asked_partitions.append(set(places))
        return {
            place: KafkaError(
                ErrorCode.CORRUPT_MESSAGE
                if place.partition == 1 and len(asked_partitions) < 4
                else ErrorCode.POLICY_VIOLATION
            )
            for place in places
        }

    async def all_topics(_topics: object) -> dict[str, SimpleNamespace]:
        return {name: SimpleNamespace(partitions={0: None, 1: None, 2: None}) for name in ("t", "other")}

    monkeypatch.setattr(release, "_probe", probe)
    monkeypatch.setattr(release, "_PROBE_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("ottla.client.admin.topics.Topics.all", all_topics)
    return asked_partitions


def test_every_leader_is_asked_until_it_refuses_clients(leaders: list[set[TopicPartition]]) -> None:
    asyncio.run(wait_until_closed(Cluster(ClientSettings(bootstrap_servers=())), ["t", "gone"]))
    everywhere = {TopicPartition("t", number) for number in range(3)}
    assert leaders == [everywhere, *[{TopicPartition("t", 1)}] * 3]


def test_a_leader_that_never_learns_it_is_named(
    leaders: list[set[TopicPartition]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "_PROBE_SECONDS", -1.0)
    with pytest.raises(MirrorError, match="t-1 still accepts records of clients"):
        asyncio.run(wait_until_closed(Cluster(ClientSettings(bootstrap_servers=())), ["t"]))
    assert len(leaders) == 1
