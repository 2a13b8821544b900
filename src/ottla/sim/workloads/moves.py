"""An administrator that reassigns replicas and elects preferred leaders while partitions are in use."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.sim.tasks import sleep
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.peers import PeerUnreachable

__all__ = ["Moves"]

PREFERRED = 0


class Moves(Workload):
    """Reassigns partitions, sometimes cancels a reassignment, and elects preferred leaders."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        replication_factor: int,
        pause_seconds: float,
    ) -> None:
        super().__init__(stage, name)
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        while not self.stage.is_ending:
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))
            try:
                if self.random.random() < 0.4:
                    await self._elect()
                else:
                    await self._reassign()
            except PeerUnreachable:
                await self.client.back_off()

    async def _reassign(self) -> None:
        partition = self.random.choice(self._partitions)
        nodes = sorted(self.stage.cluster.nodes)
        is_cancelled = self.random.random() < 0.2
        replicas = None if is_cancelled else self.random.sample(nodes, self._replication_factor)
        response = await self.client.ask_any(
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=partition.topic,
                        partitions=[ReassignablePartition(partition_index=partition.partition, replicas=replicas)],
                    )
                ],
                timeout_ms=5_000,
            ),
            AlterPartitionReassignmentsResponse,
        )
        code = response.error_code or response.responses[0].partitions[0].error_code
        self.client.kernel.counts[f"reassignment: {ErrorCode(code).name}"] += 1

    async def _elect(self) -> None:
        partition = self.random.choice(self._partitions)
        response = await self.client.ask_any(
            ElectLeadersRequest(
                election_type=PREFERRED,
                topic_partitions=[TopicPartitions(topic=partition.topic, partitions=[partition.partition])],
                timeout_ms=5_000,
            ),
            ElectLeadersResponse,
        )
        rows = [row.error_code for topic in response.replica_election_results for row in topic.partition_result]
        code = ErrorCode(response.error_code or (rows[0] if rows else 0))
        self.client.kernel.counts[f"election: {code.name}"] += 1
