"""A leader that does not answer holds up a call for many partitions until its deadline, not for a request time-out."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ottla.client.cluster import Cluster
from ottla.client.leaders import ask_leaders
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from tests.unit.client.test_leaders import Scripted

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class TwoLeaders(Scripted):
    """Broker 1 leads the first partition of `t`, broker 2 the second."""

    def __init__(self) -> None:
        super().__init__()
        partitions = {number: PartitionInfo(number, number + 1, 0, (), (), ()) for number in range(2)}
        self.metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, partitions, None)

    def deadline(self, timeout_ms: int | None) -> float:
        return asyncio.get_running_loop().time() + (timeout_ms or 60_000) / 1000


def test_a_silent_leader_costs_only_its_own_partitions() -> None:
    async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
        if node_id == 2:
            await asyncio.Event().wait()
        return dict.fromkeys(partitions, 7)

    async def scenario() -> dict[TopicPartition, Any]:
        async with asyncio.timeout(5):
            return await ask_leaders(cast(Cluster, TwoLeaders()), [ONE, OTHER], ask, timeout_ms=10)

    answers = asyncio.run(scenario())
    assert answers[ONE] == 7
    late = answers[OTHER]
    assert isinstance(late, KafkaError)
    assert late.code == ErrorCode.REQUEST_TIMED_OUT
