"""Joins small batches of a partition, since every batch costs a request to the target.

Producers that do not linger write batches of one record. Apache Kafka takes one batch of a partition in a request.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.admin.configs import ConfigResource, Configs, ResourceType
from ottla.client.cluster import Cluster
from ottla.client.consumer.decode import ConsumedBatch
from ottla.mirror.copying.pairs import Pair
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["SmallBatches"]

# To open and encode the records of a larger batch costs more than its request.
_SMALL_BYTES_MAX = 2 * 1024
_JOINED_BYTES_MAX = 16 * 1024
# A joined batch is larger than the sum where the records get larger deltas of offsets and timestamps.
_RESERVE = 0.5
_LIMIT = "max.message.bytes"


class SmallBatches:
    """Joins batches up to the limits of the target's topics. The limit of a topic with small batches is read once."""

    def __init__(self, target: Cluster) -> None:
        self._target = target
        self._limits: dict[str, int] = {}

    async def joined(
        self, batches: list[ConsumedBatch], pairs: Mapping[TopicPartition, Pair]
    ) -> list[list[ConsumedBatch]]:
        """Groups of neighbouring batches to be joined, in order. Markers have an empty view, and join any group."""
        groups: list[list[ConsumedBatch]] = []
        # The first batch of the last group that has records, and the size of the group.
        like: ConsumedBatch | None = None
        size = 0
        for batch in batches:
            size += len(batch.view)
            if (
                groups
                and groups[-1][-1].partition == batch.partition
                and size <= _JOINED_BYTES_MAX
                and (like is None or not len(batch.view) or await self._may_join(like, batch, size, pairs))
            ):
                groups[-1].append(batch)
                like = like or (batch if len(batch.view) else None)
                continue
            groups.append([batch])
            size = len(batch.view)
            like = batch if size else None
        return groups

    async def _may_join(
        self, first: ConsumedBatch, second: ConsumedBatch, size: int, pairs: Mapping[TopicPartition, Pair]
    ) -> bool:
        return (
            len(first.view) <= _SMALL_BYTES_MAX
            and len(second.view) <= _SMALL_BYTES_MAX
            and first.header.magic == second.header.magic
            and first.header.codec == second.header.codec
            and size <= await self._limit(pairs[second.partition].target.topic)
        )

    async def _limit(self, topic: str) -> int:
        known = self._limits.get(topic)
        if known is None:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            config = (await Configs(self._target).describe([resource], keys=[_LIMIT]))[resource]
            # Without the right to read settings, batches stay as they are.
            values = [] if isinstance(config, KafkaError) else [entry.value for entry in config if entry.name == _LIMIT]
            known = self._limits[topic] = int(int(values[0]) * _RESERVE) if values and values[0] else 0
        return known
