"""Detects that a topic which an application reads was deleted."""

from __future__ import annotations

import asyncio

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.streams.errors import MissingSourceTopicError

__all__ = ["SourceWatch"]

_SECONDS_MAX = 10.0
_AGAIN_SECONDS = 0.2


class SourceWatch:
    def __init__(self, cluster: Cluster, topics: set[str]) -> None:
        self._cluster = cluster
        self._topics = sorted(topics)
        self._interval = min(_SECONDS_MAX, cluster.settings.metadata_age_max_ms / 1000)
        self._due = 0.0
        # Topics that were missing at the last look.
        self._gone: set[str] = set()

    async def look_when_due(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._due:
            await self.look()
            self._due = now + (_AGAIN_SECONDS if self._gone else self._interval)

    async def look(self) -> None:
        """Raises MissingSourceTopicError, but not for an unreachable cluster."""
        try:
            known = (await self._cluster.refresh(self._topics)).topics
        except (KafkaError, ClientError):
            return
        gone = {
            topic
            for topic in self._topics
            if topic not in known
            or ((error := known[topic].error) is not None and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        }
        # A broker that has just started may not know a topic yet, so it has to be missing twice.
        missing = sorted(gone & self._gone)
        self._gone = gone
        if missing:
            raise MissingSourceTopicError(
                f"Topic {missing[0]} was deleted while the application reads it. Create it again and reset the "
                "application, or change the topology."
            )
