"""A small client for workloads: it caches leaders and coordinators, and drops entries that proved wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.model.ids import TopicPartition, Uuid
from ottla.sim.cluster import SimCluster
from ottla.sim.peers import SimPeers
from ottla.sim.process import Process, ProcessScheduler
from ottla.sim.tasks import sleep, wait
from ottla.wire.message import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.peers import Endpoint, PeerUnreachable

__all__ = ["REQUEST_TIMEOUT_MS", "SimClient"]

M = TypeVar("M", bound=Message)

REQUEST_TIMEOUT_MS = 5_000
BACKOFF_SECONDS = (0.05, 0.5)


class SimClient:
    """A client on its own host."""

    def __init__(self, cluster: SimCluster, name: str, number: int, *, network: str = "10.0.1.") -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.name = name
        self.host = f"{network}{number}"
        self.process = Process(cluster.kernel, name, on_defect=cluster.report_defect)
        self.random = cluster.kernel.random_for(name)
        self._peers = SimPeers(
            cluster.network, self.process, ProcessScheduler(self.process), host=self.host, client_id=name
        )
        self.topic_ids: dict[str, Uuid] = {}
        self._leaders: dict[TopicPartition, tuple[Endpoint, int]] = {}
        # The newest leader epoch seen, by topic id and partition.
        self._epochs: dict[tuple[Uuid, int], int] = {}
        self._coordinators: dict[str, Endpoint] = {}
        self._bootstrap = cluster.endpoints
        # Called with every request and its answer.
        self.on_answer: Callable[[Message, Message], object] | None = None

    async def ask(
        self,
        endpoint: Endpoint,
        request: Message,
        answer: type[M],
        *,
        purpose: str = "",
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        version_max: int = 32767,
    ) -> M:
        """The broker's answer. Raises PeerUnreachable if there is none."""
        response = await wait(
            self._peers.send(endpoint, request, purpose=purpose, timeout_ms=timeout_ms, version_max=version_max)
        )
        assert isinstance(response, answer)
        if self.on_answer is not None:
            self.on_answer(request, response)
        return response

    async def ask_any(self, request: Message, answer: type[M]) -> M:
        """The answer of a random broker."""
        return await self.ask(self.random.choice(self._bootstrap), request, answer, purpose="any")

    async def back_off(self) -> None:
        await sleep(self.process, self.random.uniform(*BACKOFF_SECONDS))

    def disconnect(self, endpoint: Endpoint, *, purpose: str = "") -> None:
        self._peers.disconnect(endpoint, purpose=purpose)

    # -- metadata --------------------------------------------------------------------------------------------------

    async def leader(self, partition: TopicPartition) -> tuple[Endpoint, int] | None:
        """The leader and its epoch; None if there is no leader or no metadata."""
        if partition not in self._leaders:
            await self.refresh([partition.topic])
        return self._leaders.get(partition)

    def forget_leader(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    async def refresh(self, topics: Sequence[str]) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        try:
            response = await self.ask_any(request, MetadataResponse)
        except PeerUnreachable:
            return
        brokers = {broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            if topic.error_code:
                continue
            assert topic.name is not None
            self.topic_ids[topic.name] = topic.topic_id
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                endpoint = brokers.get(row.leader_id)
                # Metadata of an older epoch is ignored, as in Kafka's clients (KIP-320): a broker that lags may still
                # name itself as leader, and would answer OFFSET_OUT_OF_RANGE to positions read from its successor.
                newest = self._epochs.get((topic.topic_id, row.partition_index), -1)
                self._epochs[topic.topic_id, row.partition_index] = max(newest, row.leader_epoch)
                if endpoint is None or row.leader_epoch < newest:
                    self._leaders.pop(partition, None)
                else:
                    self._leaders[partition] = (endpoint, row.leader_epoch)

    async def coordinator(self, group: str, *, key_type: int = 0) -> Endpoint | None:
        """The coordinator of a group or, with key type 1, of a transactional id."""
        endpoint = self._coordinators.get(group)
        if endpoint is None:
            try:
                response = await self.ask_any(
                    FindCoordinatorRequest(key_type=key_type, coordinator_keys=[group]), FindCoordinatorResponse
                )
            except PeerUnreachable:
                return None
            row = response.coordinators[0]
            if row.error_code:
                return None
            endpoint = self._coordinators[group] = Endpoint(row.host, row.port)
        return endpoint

    def forget_coordinator(self, group: str) -> None:
        self._coordinators.pop(group, None)

    def broker_run(self, endpoint: Endpoint) -> str:
        """The node at this endpoint and its current run, for the history."""
        node = self.cluster.node_at(endpoint.host)
        return f"node {node.node_id}, run {node.incarnation}"
