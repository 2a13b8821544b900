"""The monitor reads the partitions of brokers that joined, also if the first assignment fails."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from ottla.client.errors import ClusterUnreachable
from ottla.client.settings import ClientSettings
from ottla.model.ids import TopicPartition
from ottla.monitor import probe
from ottla.monitor.probe import Probe, ProbeSettings


class FakeConsumer:
    """Its second assignment fails."""

    def __init__(self) -> None:
        self.assigned: list[list[int]] = []
        self.turns = 0

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        self.turns += 1
        if self.turns == 2:
            raise ClusterUnreachable("The brokers do not answer.")
        self.assigned.append(sorted(partition.partition for partition in partitions))

    async def seek_to(self, *_: object) -> None:
        pass

    def seek(self, *_: object) -> None:
        pass

    def position(self, _: object) -> int:
        return 0


class FakeProducer:
    def __init__(self) -> None:
        self.partitions: list[int] = []

    async def send(self, _topic: str, _value: bytes, *, partition: int, **_: Any) -> None:
        self.partitions.append(partition)


def test_a_failed_assignment_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ensure_topic(*_: object) -> dict[int, int]:
        return {0: 1, 1: 2}

    async def follow() -> tuple[list[list[int]], list[int]]:
        work = Probe(ClientSettings(bootstrap_servers=()), ProbeSettings(), lambda _: None)
        consumer: Any = FakeConsumer()
        producer: Any = FakeProducer()
        work.leaders = {0: 1}
        await work._assign(consumer, at_end=True)
        monkeypatch.setattr(probe, "ensure_topic", ensure_topic)
        admin: Any = None
        await work._follow_topic(admin, consumer)
        await work._send_round(producer)
        await work._follow_topic(admin, consumer)
        await work._send_round(producer)
        return consumer.assigned, producer.partitions

    # No probe goes to the new partition before it is read.
    assert asyncio.run(follow()) == ([[0], [0, 1]], [0, 0, 1])
