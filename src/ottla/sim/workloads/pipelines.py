"""A client that sends several requests of different APIs on one connection without waiting for the answers.

Fetches that wait for data, produce requests that wait for replicas, and ListOffsets requests follow each other in
random order. `ottla.sim.checkers.connections` checks the order of the answers, on this connection as on every other.
"""

from __future__ import annotations

from contextlib import suppress

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.history import Sent
from ottla.sim.process import EPOCH_MS
from ottla.sim.tasks import Task, sleep, wait
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.message import Message
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.peers import Endpoint, PeerUnreachable

__all__ = ["Pipelines"]

LATEST = -1
ACKS_ALL = -1
PURPOSE = "pipeline"


class Pipelines(Workload):
    def __init__(
        self, stage: Stage, name: str, partition: TopicPartition, *, requests_max: int, bytes_per_second: int
    ) -> None:
        """`bytes_per_second` is the client's produce quota, 0 for none. A client that exceeds it is muted."""
        super().__init__(stage, name)
        self._bytes_per_second = bytes_per_second
        self._partition = partition
        self._requests_max = requests_max
        self._position = 0
        self._number = 0

    async def run(self) -> None:
        if self._bytes_per_second:
            await self._set_quota()
        while not self.stage.is_ending:
            await sleep(self.client.process, self.random.uniform(0, 0.3))
            leader = await self.client.leader(self._partition)
            if leader is None or self._partition.topic not in self.client.topic_ids:
                await self.client.back_off()
                continue
            if not await self._send_pipeline(*leader):
                self.client.forget_leader(self._partition)
                await self.client.back_off()

    async def _set_quota(self) -> None:
        """Sets the quota with one attempt, since a run without the quota is valid too."""
        entity = EntityData(entity_type="client-id", entity_name=f"{self.name}-{PURPOSE}")
        limit = OpData(key="producer_byte_rate", value=float(self._bytes_per_second))
        request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=[entity], ops=[limit])])
        with suppress(PeerUnreachable):
            await self.client.ask_any(request, AlterClientQuotasResponse)

    async def _send_pipeline(self, endpoint: Endpoint, epoch: int) -> bool:
        """True if every request was answered."""
        makers = (self._produce, self._fetch, self._list_offsets, self._metadata)
        answers: list[Deferred[bool]] = []
        for _ in range(self.random.randint(2, self._requests_max)):
            request, sent = self.random.choice(makers)(epoch)
            answered: Deferred[bool] = Deferred()
            answers.append(answered)
            Task(
                self.client.process,
                self.name,
                self._ask(endpoint, request, sent, answered),
                self.stage.cluster.report_defect,
            )
        self.client.kernel.counts["pipeline"] += 1
        outcomes = [await wait(answered) for answered in answers]
        return all(outcomes)

    async def _ask(self, endpoint: Endpoint, request: Message, sent: Sent | None, answered: Deferred[bool]) -> None:
        try:
            response = await self.client.ask(endpoint, request, Message, purpose=PURPOSE)
        except PeerUnreachable:
            answered.resolve(False)
            return
        error = ErrorCode.NONE
        if sent is not None:
            assert isinstance(response, ProduceResponse)
            row = response.responses[0].partition_responses[0]
            error = ErrorCode(row.error_code)
            if error is ErrorCode.NONE:
                sent.offset = row.base_offset
        answered.resolve(error is ErrorCode.NONE)

    def _produce(self, _epoch: int) -> tuple[Message, Sent | None]:
        self._number += 1
        sent = Sent(
            partition=self._partition,
            producer=self.name,
            number=self._number,
            acks=ACKS_ALL,
            is_idempotent=False,
            sent_us=self.now_us,
        )
        self.history.sent.append(sent)
        record = Record(timestamp=EPOCH_MS + self.now_us // 1000, key=None, value=sent.value + bytes(20))
        data = PartitionProduceData(index=self._partition.partition, records=memoryview(build_batch([record])))
        topic = TopicProduceData(name=self._partition.topic, topic_id=self._topic_id, partition_data=[data])
        return ProduceRequest(acks=ACKS_ALL, timeout_ms=3_000, topic_data=[topic]), sent

    def _fetch(self, epoch: int) -> tuple[Message, None]:
        # A fetch beyond the end waits until a record arrives or its time is over.
        self._position += self.random.choice((0, 0, 1, 3))
        partition = FetchPartition(
            partition=self._partition.partition,
            fetch_offset=self._position,
            current_leader_epoch=epoch,
            partition_max_bytes=2000,
        )
        topic = FetchTopic(topic=self._partition.topic, topic_id=self._topic_id, partitions=[partition])
        wait_ms = self.random.choice((0, 20, 200))
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=1_000, max_bytes=2000, topics=[topic]), None

    def _list_offsets(self, epoch: int) -> tuple[Message, None]:
        partition = ListOffsetsPartition(
            partition_index=self._partition.partition, current_leader_epoch=epoch, timestamp=LATEST
        )
        topic = ListOffsetsTopic(name=self._partition.topic, partitions=[partition])
        return ListOffsetsRequest(replica_id=-1, topics=[topic]), None

    def _metadata(self, _epoch: int) -> tuple[Message, None]:
        topics = [MetadataRequestTopic(name=self._partition.topic)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False), None

    @property
    def _topic_id(self) -> Uuid:
        return self.client.topic_ids[self._partition.topic]
