"""The execution of a plan's steps, with a cluster that is only told what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.balance.execute import Executor
from ottla.balance.planner import Movement
from ottla.balance.steps import Step
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.model.ids import TopicPartition


class Cluster:
    """An admin client's view of a cluster in which every movement is done at once."""

    def __init__(self, replicas: Mapping[TopicPartition, tuple[int, ...]], brokers: Collection[int]) -> None:
        self.replicas = dict(replicas)
        self.brokers = set(brokers)
        self.rated: list[int] = []
        self.after_reassignment: Callable[[], None] = lambda: None
        # An admin client consists of these parts.
        self.connections = self.metadata = self.configs = self.topics = self.partitions = self

    async def refresh(self, _: Sequence[str]) -> None:
        pass

    async def alter(self, changes: Mapping[ConfigResource, Any]) -> dict[ConfigResource, None]:
        self.rated += [int(resource.name) for resource in changes if resource.type is ResourceType.BROKER]
        return dict.fromkeys(changes)

    async def describe(self, wanted: Collection[Any], *, keys: Any = None) -> dict[Any, Any]:
        if keys is not None:
            return {resource: [] for resource in wanted}
        found: dict[str, Any] = {topic: SimpleNamespace(partitions=[]) for topic in wanted}
        for (topic, index), replicas in self.replicas.items():
            one = SimpleNamespace(partition=index, replicas=replicas, leader=replicas[0])
            found[topic].partitions.append(one)
        return found

    async def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> dict[TopicPartition, None]:
        self.replicas.update(targets)
        self.after_reassignment()
        return dict.fromkeys(targets)

    async def reassignments(self, _: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
        return {}


def test_a_broker_that_comes_back_is_throttled_from_then_on() -> None:
    first, second, third = (TopicPartition("t", index) for index in range(3))
    cluster = Cluster({first: (1, 2), second: (1, 2), third: (1, 2)}, brokers={1, 3})
    steps = [
        Step((Movement(partition=one, before=(1, 2), after=(1, 3), size_bytes=1.0),)) for one in (first, second, third)
    ]
    cluster.after_reassignment = lambda: cluster.brokers.add(2)
    executor = Executor(cluster, throttle=1_000, guard=None, on_step=lambda *_: None)  # type: ignore[arg-type]
    asyncio.run(executor.run(steps))
    assert cluster.rated == [1, 3, 2]
