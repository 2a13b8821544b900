"""Requests to the leaders of partitions: which errors are asked about again, and how often."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ottla.client.cluster import Cluster
from ottla.client.leaders import ask_leaders
from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

PARTITION = TopicPartition("t", 0)
UNKNOWN = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Scripted:
    """Metadata that names broker 1 as the leader of `t`, until the topic is deleted."""

    def __init__(self) -> None:
        self.settings = ClientSettings(bootstrap_servers=(), retry_backoff_ms=1, retry_backoff_max_ms=1)
        self.metadata = MetadataCache()
        self.metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, {0: PartitionInfo(0, 1, 0, (1,), (1,), ())}, None)
        self.deleted_after: int | None = None
        self.refreshes = 0

    def deadline(self, _timeout_ms: int | None) -> float:
        return asyncio.get_running_loop().time() + 60

    async def refresh(self, _topics: list[str]) -> None:
        self.refreshes += 1
        if self.refreshes == self.deleted_after:
            del self.metadata.topics["t"]


def outcome_of(cluster: Scripted, *answers: Any) -> tuple[Any, int]:
    """The result for the partition and the number of requests; the leader repeats the last of its answers."""
    calls = 0

    async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
        nonlocal calls
        assert (node_id, partitions) == (1, [PARTITION])
        calls += 1
        return {PARTITION: answers[min(calls, len(answers)) - 1]}

    answers_by_partition = asyncio.run(ask_leaders(cast(Cluster, cluster), [PARTITION], ask))
    return answers_by_partition[PARTITION], calls


def test_a_leader_that_does_not_know_its_partition_yet_is_asked_again() -> None:
    assert outcome_of(Scripted(), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 7) == (7, 5)


def test_a_topic_that_was_deleted_is_not_asked_for_without_end() -> None:
    cluster = Scripted()
    cluster.deleted_after = 2
    answer, calls = outcome_of(cluster, UNKNOWN)
    assert (answer.code, calls, cluster.refreshes) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2, 2)


def test_a_topic_that_is_unknown_is_looked_up_once_more() -> None:
    cluster = Scripted()
    cluster.metadata.topics.clear()
    answer, calls = outcome_of(cluster, 7)
    assert (answer.code, calls, cluster.refreshes) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, 2)


def test_what_cannot_be_retried_is_the_answer() -> None:
    answer, calls = outcome_of(Scripted(), KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert (answer.code, calls) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1)
