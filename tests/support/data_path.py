"""A broker's data path without sockets: real logs, real replicas, real handlers, a virtual clock.

Requests go directly to the handlers, as dispatch passes them after decoding; time moves only under the test's control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.broker.apis import delete_records, fetch, list_offsets, produce
from ottla.broker.context import ConnectionContext, ListenerInfo, RequestContext
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.records.build import build_batch
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.records.record import Record
from ottla.replica.manager import ReplicaManager
from ottla.replica.partition import Partition
from ottla.storage.manager import LogManager
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.packed import PackedResponse
from tests.support.virtual_world import VirtualWorld

__all__ = ["DataPath", "batch", "values"]

NODE_ID = 1
LISTENER = ListenerInfo(
    name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    host="127.0.0.1",
    port=9092,
    advertised_host="127.0.0.1",
    advertised_port=9092,
)


def batch(*texts: str, timestamp: int = 1_700_000_000_000, keys: bool = False, **options: Any) -> memoryview:
    """A record batch with these values, as a producer would send it."""
    records = [
        Record(key=f"k{index}".encode() if keys else None, value=text.encode(), timestamp=timestamp + index)
        for index, text in enumerate(texts)
    ]
    return memoryview(build_batch(records, **options))


def values(records: Any) -> list[str]:
    """The values in the records of a fetch response."""
    if not records:
        return []
    data = records.read() if isinstance(records, FileRegion) else bytes(records)
    return [
        str(bytes(record.value or b""), "utf-8")
        for record_batch in iterate_batches(memoryview(bytearray(data)))
        for record in iterate_records(record_batch)
    ]


def unpacked(response: FetchResponse | PackedResponse, version: int) -> FetchResponse:
    """The response as the client decodes it."""
    return response.unpacked(FetchResponse, version) if isinstance(response, PackedResponse) else response


class DataPath:
    """A broker with all parts between dispatch and disk."""

    def __init__(self, directory: str, *, properties: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.properties = dict(properties or {})
        self.virtual = VirtualWorld()
        self.image = MetadataImage(cluster_id="test")
        self._offset = 0
        self.start()

    def start(self) -> None:
        """Opens the logs; after `stop` this is a restart."""
        self.config = BrokerConfig.embedded({"log.dirs": self.directory, **self.properties})
        self.logs = self._open_logs()
        self.replicas = ReplicaManager(node_id=NODE_ID, config=self.config, world=self.virtual.world, logs=self.logs)
        self.logs.on_directory_failure.append(lambda _, lost: self.replicas.on_directory_failed(lost))
        self.replicas.start(self.image)
        # This object itself holds the current metadata image.
        self.broker: Any = SimpleNamespace(
            config=self.config,
            replicas=self.replicas,
            logs=self.logs,
            node_id=NODE_ID,
            metadata=self,
            world=self.virtual.world,
        )

    def _open_logs(self) -> LogManager:
        logs = LogManager(self.virtual.world, self.config, cluster_id="test", node_id=NODE_ID)
        self._wait(logs.open())
        return logs

    def stop(self) -> None:
        """A clean shutdown."""
        self._wait(self.logs.close())

    def _wait(self, done: Deferred[None]) -> None:
        while not done.done:
            self.virtual.workers.run_all()
            self.virtual.scheduler.run()
        done.result()

    def settle(self) -> None:
        """Runs all due callbacks and worker tasks until none is left."""
        self.virtual.scheduler.run()
        while self.virtual.workers.tasks:
            self.virtual.workers.run_all()
            self.virtual.scheduler.run()

    # Metadata.

    def commit(self, *records: Any) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self._offset += len(records)
        self.image = delta.apply(offset=self._offset, epoch=1, timestamp_ms=self.virtual.clock.ms)
        self.replicas.publish(delta, self.image)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: Sequence[int] = (NODE_ID,),
        isr: Sequence[int] | None = None,
        leader: int = NODE_ID,
        **configs: str,
    ) -> Uuid:
        topic_id = Uuid.random(self.virtual.random)
        self.commit(
            r.TopicRecord(name=name, topic_id=topic_id),
            *(
                r.ConfigRecord(resource_type=2, resource_name=name, name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
            *(
                r.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(replicas),
                    isr=list(replicas if isr is None else isr),
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[Uuid.ZERO] * len(replicas),
                )
                for index in range(partitions)
            ),
        )
        return topic_id

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.replicas.find(topic, index)

    # Requests.

    def context(self, api_key: int, version: int) -> RequestContext:
        connection = ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=50_000)
        return RequestContext(api_key, version, 1, "test", connection, self.virtual.clock.now_ms())

    def call(self, handler: Any, request: Any, version: int) -> Any:
        return handler.API.handle(request, self.context(request.API_KEY, version), self.broker)

    def produce(
        self,
        topic: str,
        records: memoryview,
        *,
        index: int = 0,
        acks: int = 1,
        version: int = 12,
        timeout_ms: int = 1_000,
    ) -> PartitionProduceResponse | Deferred[ProduceResponse] | None:
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
            ],
        )
        response = self.call(produce, request, version)
        if isinstance(response, ProduceResponse):
            return response.responses[0].partition_responses[0]
        return response

    def append(self, topic: str, *texts: str, index: int = 0) -> int:
        """Produces one batch and returns its first offset."""
        answer = self.produce(topic, batch(*texts), index=index)
        assert isinstance(answer, PartitionProduceResponse)
        assert answer.error_code == 0, answer
        return answer.base_offset

    def fetch_request(
        self,
        topic: str,
        offsets: Mapping[int, int],
        *,
        topic_id: Uuid = Uuid.ZERO,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        leader_epoch: int = -1,
        **fields: Any,
    ) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=partition_max_bytes,
                            current_leader_epoch=leader_epoch,
                        )
                        for index, offset in offsets.items()
                    ],
                )
            ],
            **fields,
        )

    def fetch(
        self, topic: str, offsets: Mapping[int, int], *, version: int = 12, **fields: Any
    ) -> FetchResponse | Deferred[FetchResponse]:
        response: FetchResponse | Deferred[FetchResponse] = self.call(
            fetch, self.fetch_request(topic, offsets, **fields), version
        )
        return response

    def fetch_one(self, topic: str, offset: int, *, index: int = 0, **fields: Any) -> PartitionData:
        """Reads a partition without waiting and returns its part of the response."""
        response = self.fetch(topic, {index: offset}, **fields)
        assert isinstance(response, FetchResponse)
        return response.responses[0].partitions[0]

    def list_offset(
        self, topic: str, timestamp: int, *, version: int = 11, isolation_level: int = 0, leader_epoch: int = -1
    ) -> Any:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=leader_epoch)
                    ],
                )
            ],
        )
        response = self.call(list_offsets, request, version)
        if isinstance(response, Deferred):
            self.virtual.workers.run_all()
            response = response.result()
        return response.topics[0].partitions[0]

    def delete_records(self, topic: str, offset: int) -> Any:
        wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        return (
            self.call(delete_records, DeleteRecordsRequest(topics=[wanted], timeout_ms=1_000), 2)
            .topics[0]
            .partitions[0]
        )
