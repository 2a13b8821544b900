"""`read_committed` consumers: they skip the records of transactions that the broker lists as aborted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.model.ids import TopicPartition
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_batches, iterate_records, verify_checksum
from ottla.sim.client import SimClient
from ottla.sim.tasks import sleep
from ottla.sim.workloads.consume import value_of
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.peers import PeerUnreachable

__all__ = ["ReadCommitted", "committed_records", "fetch_committed"]


class ReadCommitted(Workload):
    """Reads partitions with the isolation level `read_committed` and records every value."""

    def __init__(self, stage: Stage, name: str, partitions: Sequence[TopicPartition], *, pause_seconds: float) -> None:
        super().__init__(stage, name)
        self._positions = dict.fromkeys(partitions, 0)
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        while not self.stage.is_ending:
            for partition in self._positions:
                await self._read(partition)
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))

    async def _read(self, partition: TopicPartition) -> None:
        position = self._positions[partition]
        data = await fetch_committed(self.client, partition, position)
        if data is None:
            return
        for offset, value in committed_records(data):
            if value is not None and offset >= position:
                self.history.read_committed.append((partition, value))
                self.client.kernel.counts["committed record read"] += 1
            self._positions[partition] = max(self._positions[partition], offset + 1)


async def fetch_committed(client: SimClient, partition: TopicPartition, position: int) -> PartitionData | None:
    """The leader's data from an offset on; None, after a pause, if there was no answer or an error."""
    leader = await client.leader(partition)
    if leader is None:
        await client.back_off()
        return None
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=1,
        topics=[
            FetchTopic(
                topic=partition.topic,
                topic_id=client.topic_ids[partition.topic],
                partitions=[
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=position,
                        current_leader_epoch=leader[1],
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
        ],
    )
    try:
        response = await client.ask(leader[0], request, FetchResponse, purpose="fetch")
    except PeerUnreachable:
        client.forget_leader(partition)
        return None
    data = response.responses[0].partitions[0] if response.responses else None
    if data is None or data.error_code:
        client.forget_leader(partition)
        await client.back_off()
        return None
    return data


def committed_records(data: PartitionData) -> Iterator[tuple[int, bytes | None]]:
    """Offsets and values without the records of aborted transactions, which the broker has listed.

    After every batch its last offset is yielded with None, so that a reader gets past markers and skipped records.
    """
    if data.records is None:
        return
    begins = sorted((aborted.first_offset, aborted.producer_id) for aborted in data.aborted_transactions or ())
    aborted: set[int] = set()
    for batch in iterate_batches(data.records):  # type: ignore[arg-type]
        header = batch.header
        if not verify_checksum(batch.view, header):
            # A bit has rotted. The records are fetched again.
            return
        while begins and begins[0][0] <= header.last_offset:
            aborted.add(begins.pop(0)[1])
        if header.is_control:
            record = next(iter(iterate_records(batch)))
            if read_control_type(record.key) is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            for record in iterate_records(batch):
                yield record.offset, value_of(record.value)
        yield header.last_offset, None
