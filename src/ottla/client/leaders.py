"""Requests to the leaders of many partitions: one request for each broker; only failed partitions are retried."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.errors import ConnectionLost
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["ask_leaders", "by_topic"]

T = TypeVar("T")


async def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, T | KafkaError]]],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, T | KafkaError]:
    """`ask(node_id, partitions)` returns the partitions' results. Retriable errors are retried until the deadline.

    The result contains every partition, with its result or its last error.
    """
    left = list(dict.fromkeys(partitions))
    done: dict[TopicPartition, T | KafkaError] = {}
    end = cluster.deadline(timeout_ms)
    now = asyncio.get_running_loop().time
    backoff_ms = cluster.settings.retry_backoff_ms
    fresh = False
    while left:
        await _learn_leaders(cluster, left, fresh=fresh)
        left_by_node: dict[int, list[TopicPartition]] = defaultdict(list)
        without_leader: set[TopicPartition] = set()
        for partition in left:
            leader = _leader(cluster, partition)
            if isinstance(leader, KafkaError):
                done[partition] = leader
                without_leader.add(partition)
            else:
                left_by_node[leader].append(partition)
        answers = await asyncio.gather(
            *[_ask_leader(ask, node_id, node_partitions, end) for node_id, node_partitions in left_by_node.items()]
        )
        for answer in answers:
            done.update(answer)
        left = [partition for partition in left if _is_retriable(done[partition])]
        pause = backoff_ms / 1000
        if not left or now() + pause >= end:
            return done
        # An unknown topic is looked up once more, because it may be new. A leader that refuses its partition
        # accepts it soon, or the next metadata names no leader.
        if fresh and all(partition in without_leader and _is_unknown(done[partition]) for partition in left):
            return done
        await asyncio.sleep(pause)
        backoff_ms = min(backoff_ms * 2, cluster.settings.retry_backoff_max_ms)
        fresh = True
    return done


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in the given order."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return numbers


async def _ask_leader(
    ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, T | KafkaError]]],
    node_id: int,
    partitions: list[TopicPartition],
    deadline: float,
) -> dict[TopicPartition, T | KafkaError]:
    try:
        async with asyncio.timeout_at(deadline):
            return await ask(node_id, partitions)
    except TimeoutError:
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Broker {node_id} did not answer in time.")
        return dict.fromkeys(partitions, late)
    except ConnectionLost as error:
        return dict.fromkeys(partitions, KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)))


async def _learn_leaders(cluster: Cluster, partitions: list[TopicPartition], *, fresh: bool) -> None:
    topics = dict.fromkeys(partition.topic for partition in partitions)
    unknown = [topic for topic in topics if fresh or _is_incomplete(cluster, topic)]
    if unknown:
        await cluster.refresh(unknown)


def _is_incomplete(cluster: Cluster, topic: str) -> bool:
    info = cluster.metadata.topics.get(topic)
    return info is None or info.error is not None or any(partition.leader < 0 for partition in info.partitions.values())


def _leader(cluster: Cluster, topic_partition: TopicPartition) -> int | KafkaError:
    info = cluster.metadata.topics.get(topic_partition.topic)
    if info is None or (info.error is not None and not info.partitions):
        return (info and info.error) or KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic_partition.topic!r}."
        )
    partition = info.partitions.get(topic_partition.partition)
    if partition is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic_partition}.")
    if partition.leader < 0:
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader at the moment.")
    return partition.leader


def _is_retriable(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code.retriable


def _is_unknown(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
