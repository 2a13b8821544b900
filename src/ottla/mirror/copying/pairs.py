"""Which partitions a worker copies: those of matching topics that exist on both sides.

Every worker finds its partitions itself, so that no plan has to be distributed: the driver creates topics at the
target, and the worker whose number the partition hashes to begins to copy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from ottla.client.metadata import TopicInfo
from ottla.mirror.names import HEARTBEATS_TOPIC
from ottla.mirror.settings import FlowSettings
from ottla.model.ids import TopicPartition

__all__ = ["Pair", "find_pairs", "is_copied"]


class Pair(NamedTuple):
    source: TopicPartition
    target: TopicPartition
    source_topic_id: str
    """Distinguishes a topic from a deleted topic of the same name; empty if the cluster has no topic ids."""
    target_topic_id: str = ""

    @property
    def topic_ids(self) -> str:
        """Stored with a position, which is valid for these two topics only."""
        return f"{self.source_topic_id}/{self.target_topic_id}"


def is_copied(flow: FlowSettings, topic: str, *, is_internal: bool) -> bool:
    """Whether a topic of the source is copied."""
    if is_internal or _has_internal_name(flow, topic):
        return False
    if flow.policy.came_from(topic) == flow.target:
        # A topic that came from the target would be copied in circles.
        return False
    if flow.role:
        return flow.topics.matches(topic)
    return topic == HEARTBEATS_TOPIC or topic.endswith(f".{HEARTBEATS_TOPIC}") or flow.topics.matches(topic)


def _has_internal_name(flow: FlowSettings, topic: str) -> bool:
    """Topics of clusters, of Connect and of mirrors, whatever `topics.exclude` says: MirrorMaker 2's rule."""
    checkpoints = flow.policy.checkpoints_topic("")
    return topic.startswith(("__", ".")) or topic.endswith((".internal", "-internal", checkpoints))


def find_pairs(
    flow: FlowSettings,
    source: Mapping[str, TopicInfo],
    target: Mapping[str, TopicInfo],
    *,
    worker: int,
    workers: int,
) -> list[Pair]:
    pairs = []
    for topic, info in sorted(source.items()):
        if info.error is not None or not is_copied(flow, topic, is_internal=info.is_internal):
            continue
        name = flow.policy.target_name(flow.source, topic)
        copy = target.get(name)
        if copy is None or copy.error is not None:
            continue
        for number in sorted(info.partitions.keys() & copy.partitions.keys()):
            if crc32(f"{topic}-{number}".encode()) % workers == worker:
                ids = [str(side.topic_id) if side.topic_id else "" for side in (info, copy)]
                pairs.append(Pair(TopicPartition(topic, number), TopicPartition(name, number), *ids))
    return pairs
