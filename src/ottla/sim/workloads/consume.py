"""A reader: fetches partitions from their leaders, from the beginning, and records every value with its offset."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.records.iterate import iterate_batches, iterate_records, verify_checksum
from ottla.sim.tasks import sleep
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.peers import PeerUnreachable

__all__ = ["Consume", "value_of"]

# In a run with damaged segments a reader begins again with this probability, after every round.
REWIND_PROBABILITY = 0.2


def value_of(value: bytes | bytearray | memoryview | None) -> bytes:
    """A record's value without the padding that producers add."""
    return b"" if value is None else bytes(value).rstrip(b"\0")


class Consume(Workload):
    """Fetches one partition at a time. With a `max_wait_ms` above 0 a fetch waits at the broker for data."""

    def __init__(
        self, stage: Stage, name: str, partitions: Sequence[TopicPartition], *, pause_seconds: float, max_wait_ms: int
    ) -> None:
        super().__init__(stage, name)
        self._positions = dict.fromkeys(partitions, 0)
        self._pause_seconds = pause_seconds
        self._max_wait_ms = max_wait_ms

    async def run(self) -> None:
        while not self.stage.is_ending:
            for partition in self._positions:
                await self._read(partition)
            if self.stage.cluster.damaged_segments and self.random.random() < REWIND_PROBABILITY:
                # Closed segments are only read by readers that are behind.
                self._positions[self.random.choice(list(self._positions))] = 0
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))

    async def _read(self, partition: TopicPartition) -> None:
        client = self.client
        leader = await client.leader(partition)
        if leader is None:
            await client.back_off()
            return
        endpoint, epoch = leader
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                FetchTopic(
                    topic=partition.topic,
                    topic_id=client.topic_ids[partition.topic],
                    partitions=[
                        FetchPartition(
                            partition=partition.partition,
                            fetch_offset=self._positions[partition],
                            current_leader_epoch=epoch,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        run = client.broker_run(endpoint)
        try:
            response = await client.ask(endpoint, request, FetchResponse, purpose="fetch")
        except PeerUnreachable:
            client.forget_leader(partition)
            return
        if response.error_code or not response.responses:
            client.forget_leader(partition)
            await client.back_off()
            return
        data = response.responses[0].partitions[0]
        if data.error_code:
            client.kernel.counts[f"fetch: {ErrorCode(data.error_code).name}"] += 1
            client.forget_leader(partition)
            await self._recover(partition, ErrorCode(data.error_code))
            return
        if run == client.broker_run(endpoint):
            self.history.observe_high_watermark(
                partition, reader=self.name, broker=run, epoch=epoch, high_watermark=data.high_watermark
            )
        self._take(partition, data)

    async def _recover(self, partition: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            position = self._positions[partition]
            self.history.report_violation(
                "stable reads",
                f"{self.name} has read {partition} up to {position}, and that offset is now out of range",
            )
            self._positions[partition] = 0
        await self.client.back_off()

    def _take(self, partition: TopicPartition, data: PartitionData) -> None:
        records = data.records
        if records is None:
            return
        position = self._positions[partition]
        for batch in iterate_batches(records):  # type: ignore[arg-type]
            if not verify_checksum(batch.view, batch.header):
                if not self.stage.cluster.damaged_segments:
                    self.history.report_violation(
                        "whole batches", f"{partition} offset {batch.header.base_offset}: wrong CRC"
                    )
                # As in Kafka, a fetch does not compare checksums. The records are fetched again.
                break
            if batch.header.base_offset > position:
                self.history.report_violation(
                    "no record is skipped",
                    f"{self.name} has read {partition} up to {position} and got offset {batch.header.base_offset} next",
                )
            for record in () if batch.header.is_control else iterate_records(batch):
                if record.offset < position:
                    continue
                if record.offset >= data.high_watermark:
                    self.history.report_violation(
                        "reads are committed",
                        f"{partition} offset {record.offset} was read above the high watermark {data.high_watermark}",
                    )
                self.history.observe_record(partition, record.offset, value_of(record.value))
                position = record.offset + 1
                self.client.kernel.counts["record read"] += 1
            position = max(position, batch.header.last_offset + 1)
        self._positions[partition] = position
