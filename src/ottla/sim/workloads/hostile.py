"""A client that sends bytes that no honest client sends: half-sent requests, claims without content, other protocols.

The bytes must not be acknowledged, stop a node, or change the view of other clients. The frames are written by hand,
because Ottla's clients would not send them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

from ottla.model.ids import TopicPartition
from ottla.model.ports import FileRegion
from ottla.records.build import assemble_batch
from ottla.records.compression import Codec
from ottla.sim.network import Socket
from ottla.sim.tasks import sleep
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.peers import Endpoint

__all__ = ["Hostile"]

BROKER_RESOURCE = 4
# Key, no value, offset delta 0: equal records compress to almost nothing.
SMALLEST_RECORD = b"\x0c\0\0\0\0\1\0"
CONNECTIONS_MAX = 12


class Hostile(Workload):
    def __init__(self, stage: Stage, name: str, partition: TopicPartition) -> None:
        super().__init__(stage, name)
        self._partition = partition
        self._sockets: list[Socket] = []

    async def run(self) -> None:
        attacks: tuple[Callable[[], bytes], ...] = (
            self._half_sent,
            self._behind_a_wait,
            self._claims,
            self._repeats,
            self._many_names,
            self._regex,
            self._other_protocol,
            self._noise,
        )
        while not self.stage.is_ending:
            data = self.random.choice(attacks)()
            endpoint = self.random.choice(self.stage.cluster.endpoints)
            for _ in range(self.random.choice((1, 1, 5))):
                self._send(endpoint, data)
                self.client.kernel.counts["hostile connection"] += 1
            await sleep(self.client.process, self.random.uniform(0, 1.0))
            open_max = self.random.choice((0, CONNECTIONS_MAX, CONNECTIONS_MAX, CONNECTIONS_MAX))
            while len(self._sockets) > open_max:
                self._sockets.pop(0).close()
        for socket in self._sockets:
            socket.close()

    def _send(self, endpoint: Endpoint, data: bytes) -> None:
        unsent = [data]

        def on_connected(socket: Socket) -> None:
            def write() -> None:
                with suppress(BlockingIOError):
                    while unsent[0] and not socket.is_closed:
                        unsent[0] = unsent[0][socket.send(unsent[0]) :]

            def read() -> None:
                with suppress(BlockingIOError):
                    socket.recv_into(memoryview(bytearray(65_536)))

            socket.take(on_readable=read, on_writable=write, on_closed=lambda _: None)
            write()

        self._sockets.append(
            self.stage.cluster.network.connect(
                process=self.client.process,
                source=self.client.host,
                target=endpoint.host,
                port=endpoint.port,
                on_connected=on_connected,
                on_refused=lambda _: None,
            )
        )

    # -- attacks ---------------------------------------------------------------------------------------------------

    def _half_sent(self) -> bytes:
        size = self.random.choice((70_000, 300_000, 4_000_000))
        return struct.pack(">i", size) + bytes(self.random.randint(0, 400_000))[: size - 1]

    def _behind_a_wait(self) -> bytes:
        """A large request behind a fetch that waits for long."""
        partition = FetchPartition(partition=self._partition.partition, fetch_offset=0, partition_max_bytes=1)
        topic = FetchTopic(topic=self._partition.topic, partitions=[partition])
        fetch = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=2**31 - 1, max_bytes=1, topics=[topic])
        return _frame(fetch, 12) + self._many_names(3_000)

    def _claims(self) -> bytes:
        """A batch that claims a million records in a few bytes."""
        count = self.random.choice((100_000, 1_000_000))
        batch = assemble_batch(
            SMALLEST_RECORD * 1_000,
            base_offset=0,
            last_offset_delta=count - 1,
            record_count=count,
            attributes=Codec.ZSTD,
            base_timestamp=0,
            max_timestamp=0,
        )
        data = PartitionProduceData(index=self._partition.partition, records=memoryview(batch))
        topic = TopicProduceData(name=self._partition.topic, partition_data=[data])
        return _frame(ProduceRequest(acks=-1, timeout_ms=2**31 - 1, topic_data=[topic]), 9)

    def _repeats(self) -> bytes:
        resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None)
        if self.random.random() < 0.5:
            return _frame(DescribeConfigsRequest(resources=[resource] * 20), 4)
        return _frame(DescribeGroupsRequest(groups=["g"] * 500), 5)

    def _many_names(self, count: int = 300) -> bytes:
        names = [f"{'n' * 30}{number}" for number in range(count)]
        topics = [MetadataRequestTopic(name=name) for name in names]
        return _frame(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)

    def _regex(self) -> bytes:
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"{self.name}-group",
            member_id=f"m{self.random.randint(0, 3)}",
            rebalance_timeout_ms=1_000,
            subscribed_topic_regex=self.random.choice(("(.?){300}[^a]", "((){1000}){1000}", "n.*", "(")),
            topic_partitions=[],
        )
        return _frame(request, 1)

    def _other_protocol(self) -> bytes:
        return self.random.choice((b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("16030102000100"), b"\xff" * 20))

    def _noise(self) -> bytes:
        noise = self.random.randbytes(self.random.randint(8, 500))
        return struct.pack(">i", len(noise)) + noise


def _frame(request: Message, version: int) -> bytes:
    parts = request_parts(request.API_KEY, version, 1, "hostile", request)
    return b"".join(bytes(part) for part in parts if not isinstance(part, FileRegion))
