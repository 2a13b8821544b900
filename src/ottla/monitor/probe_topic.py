"""The topic of the probes: every broker is the preferred leader of at least one partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import ElectionType
from ottla.client.admin.topics import DescribedTopic, NewTopic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TopicPlan", "ensure_topic", "plan_topic"]

REPLICAS_MAX = 3
SETTINGS = {"cleanup.policy": "delete", "retention.ms": "3600000", "segment.bytes": str(16 * 1024 * 1024)}


class TopicPlan(NamedTuple):
    # Replicas of partitions that are missing, the preferred leader first.
    new_partitions: tuple[tuple[int, ...], ...]
    # Partitions whose leader is not the preferred leader although the preferred leader is in sync.
    elect: tuple[int, ...]


def plan_topic(
    brokers: Sequence[int], topic: DescribedTopic | None, *, hosts: Mapping[int, str] | None = None
) -> TopicPlan:
    """The changes that make every broker the leader of a partition. Replicas go round the ring of brokers.

    Brokers with the same host name are on one machine, so the ring keeps them apart as far as possible.
    """
    existing = topic.partitions if topic is not None else ()
    # All partitions of a topic must have the same number of replicas.
    factor = len(existing[0].replicas) if existing else min(REPLICAS_MAX, len(brokers))
    preferred = {partition.replicas[0] for partition in existing if partition.replicas}
    ring = _ring(brokers, hosts or {})
    new = tuple(
        tuple(ring[(place + step) % len(ring)] for step in range(factor))
        for place, broker in enumerate(ring)
        if broker not in preferred and factor <= len(ring)
    )
    elect = tuple(
        partition.partition
        for partition in existing
        if partition.replicas and partition.leader != partition.replicas[0] and partition.replicas[0] in partition.isr
    )
    return TopicPlan(new, elect)


async def ensure_topic(admin: AdminClient, name: str, *, without: Collection[int] = ()) -> Mapping[int, int]:
    """Creates or completes the topic; returns the leader of each partition (-1 for none).

    The brokers `without` get no new partitions.
    """
    nodes = [node for node in (await admin.cluster.describe()).brokers if node.node_id not in without]
    topic = await _describe(admin, name)
    plan = plan_topic([node.node_id for node in nodes], topic, hosts={node.node_id: node.host for node in nodes})
    if topic is None:
        created = await admin.topics.create(
            [NewTopic(name=name, assignment=dict(enumerate(plan.new_partitions)), configs=SETTINGS)]
        )
        error = created[name]
        # Another monitor may have created the topic at the same time.
        if isinstance(error, KafkaError) and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
    elif plan.new_partitions:
        total = len(topic.partitions) + len(plan.new_partitions)
        failed = (await admin.topics.grow({name: total}, assignments={name: plan.new_partitions}))[name]
        if failed is not None and failed.code is not ErrorCode.INVALID_PARTITIONS:
            raise failed
    if plan.elect:
        # An election that is not possible now is tried again the next time.
        await admin.partitions.elect(ElectionType.PREFERRED, [TopicPartition(name, number) for number in plan.elect])
    described = topic if topic is not None and plan == TopicPlan((), ()) else await _describe(admin, name)
    return {} if described is None else {partition.partition: partition.leader for partition in described.partitions}


def _ring(brokers: Sequence[int], hosts: Mapping[int, str]) -> list[int]:
    """The first broker of every machine, then the second ones, and so on."""
    turns: Counter[str] = Counter()
    places = []
    for broker_id in sorted(brokers):
        host = hosts.get(broker_id, str(broker_id))
        places.append((turns[host], broker_id))
        turns[host] += 1
    return [broker_id for _, broker_id in sorted(places)]


async def _describe(admin: AdminClient, name: str) -> DescribedTopic | None:
    topic = (await admin.topics.describe([name]))[name]
    if not isinstance(topic, KafkaError):
        return topic
    if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    raise topic
