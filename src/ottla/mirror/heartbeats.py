"""Heartbeats: a record a second at the source. Their copies at the target prove that the flow works."""

from __future__ import annotations

import time

from ottla.client.cluster import Cluster
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.messages import Heartbeat
from ottla.mirror.names import HEARTBEATS_TOPIC
from ottla.mirror.settings import FlowSettings

__all__ = ["Heartbeats"]


class Heartbeats:
    """The heartbeats of one flow."""

    def __init__(self, flow: FlowSettings, source: Cluster) -> None:
        self._flow = flow
        self._producer = Producer(source, ProducerSettings(linger_ms=0))

    async def beat(self) -> None:
        beat = Heartbeat(self._flow.source, self._flow.target, time.time_ns() // 1_000_000)
        delivery = await self._producer.send(HEARTBEATS_TOPIC, beat.value(), key=beat.key(), partition=0)
        await delivery

    async def close(self) -> None:
        await self._producer.close()
