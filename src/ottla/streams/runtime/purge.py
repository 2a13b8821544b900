"""Deletes records of repartition topics that were processed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping

from ottla.client.admin.offsets import Offsets
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Purge"]


class Purge:
    """The first purge comes an interval after the start, as in Kafka Streams."""

    def __init__(self, cluster: Cluster, topics: Collection[str], interval_ms: int) -> None:
        self._offsets = Offsets(cluster)
        self._topics = topics
        self._interval_s = interval_ms / 1000
        self._due = asyncio.get_running_loop().time() + self._interval_s

    async def run(self, ends: Mapping[TopicPartition, int]) -> None:
        """Called after a commit of these offsets."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return
        self._due = now + self._interval_s
        before = {place: end for place, end in ends.items() if place.topic in self._topics}
        # A failure does no harm: the next purge covers the same records.
        with contextlib.suppress(KafkaError, ClientError):
            await self._offsets.delete_records(before)
