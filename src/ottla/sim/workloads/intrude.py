"""A client without rights: it asks for records, groups and topics, and writes, in a cluster with ACLs.

Connections from the network of intruders have a principal that no ACL names (`rights`), so every answer to them has to
be a refusal, also while nodes are killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.tasks import sleep
from ottla.sim.workloads.rights import INTRUDERS_NETWORK
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.message import Message, Structure
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peers import PeerUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Intrude"]

RULE = "nothing without rights"
# Records by topic names have no place in newer versions.
_NAMES_VERSION_MAX = 12


class Intrude(Workload):
    network = INTRUDERS_NETWORK

    def __init__(self, stage: Stage, name: str, partition: TopicPartition) -> None:
        super().__init__(stage, name)
        self._partition = partition

    async def run(self) -> None:
        while not self.stage.is_ending:
            request = self.random.choice(list(self._requests()))
            endpoint = self.random.choice(self.stage.cluster.endpoints)
            by_name = isinstance(request, FetchRequest | ProduceRequest)
            version_max = _NAMES_VERSION_MAX if by_name else 32767
            try:
                answer = await self.client.ask(endpoint, request, Message, version_max=version_max)
            except PeerUnreachable:
                await self.client.back_off()
                continue
            self.client.kernel.counts["refused intruder"] += 1
            for finding in _leaks(answer):
                self.history.report_violation(
                    RULE, f"{type(request).__name__} of an intruder was answered with {finding}"
                )
            await sleep(self.client.process, self.random.uniform(0, 0.5))

    def _requests(self) -> Iterator[Message]:
        topic, index = self._partition
        for replica_id in (-1, 1):
            wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
            yield FetchRequest(
                replica_id=replica_id,
                max_bytes=10_000,
                topics=[FetchTopic(topic=topic, topic_id=Uuid.ZERO, partitions=[wanted])],
            )
        records = memoryview(build_batch([Record(value=b"intruder", timestamp=0)]))
        data = PartitionProduceData(index=index, records=records)
        topics = [TopicProduceData(name=topic, partition_data=[data])]
        yield ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
        yield MetadataRequest(topics=None, allow_auto_topic_creation=False)
        partition = ListOffsetsPartition(partition_index=index, timestamp=-1)
        yield ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
        yield OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group-0", topics=None)])
        yield ListGroupsRequest()
        yield CreateTopicsRequest(topics=[CreatableTopic(name="intruder", num_partitions=1, replication_factor=1)])
        yield DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)])


def _leaks(answer: Message) -> Iterator[str]:
    """The information that an answer reveals besides refusals: entries without an error, records, names in lists."""
    name = type(answer).__name__
    if name in ("MetadataResponse", "ListGroupsResponse"):
        names = getattr(answer, "topics", None) or getattr(answer, "groups", None)
        if names:
            yield f"{len(names)} names"
        return
    yield from _entries(answer, is_whole=True)


def _entries(value: Any, *, is_whole: bool = False) -> Iterator[str]:
    if isinstance(value, Structure):
        if getattr(value, "records", None):
            yield "records"
        if not is_whole and getattr(value, "error_code", 1) == 0:
            yield f"a {type(value).__name__} without an error"
        for slot in value.__slots__:
            yield from _entries(getattr(value, slot))
    elif isinstance(value, list):
        for element in value:
            yield from _entries(element)
