"""An application that copies a partition exactly once: it consumes, produces, and commits offsets in transactions."""

from __future__ import annotations

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.producer import Producer
from ottla.sim.history import Copies
from ottla.sim.workloads.application_producers import TransactionalApplication
from ottla.sim.workloads.applications import FAILURES
from ottla.sim.workloads.workload import Stage

__all__ = ["ApplicationCopies"]


class ApplicationCopies(TransactionalApplication):
    def __init__(self, stage: Stage, copies: Copies, *, is_killed: bool) -> None:
        super().__init__(stage, copies.name, is_killed=is_killed)
        self._copies = copies
        self.history.copies.append(copies)

    async def main(self) -> None:
        cluster = self.connect()
        settings = ConsumerSettings(
            group_id=self.name, auto_commit=False, auto_offset_reset="earliest", read_committed=True
        )
        consumer = Consumer(cluster, settings)
        producer = await self.new_producer(cluster)
        while not self.stage.is_ending:
            try:
                await self._begin(consumer)
                while not self.stage.is_ending:
                    await self._copy(consumer, producer)
            except FAILURES as error:
                self.client.kernel.trace("client: copy failed", f"{self.name}: {error!r}")
                producer = await self.recovered(cluster, producer)
        await producer.close()
        await self._note_committed(consumer)
        await consumer.close()
        await cluster.close()

    async def _begin(self, consumer: Consumer) -> None:
        """Continues where the last transaction has ended."""
        source = self._copies.source
        committed = (await consumer.committed([source])).get(source)
        await consumer.assign([source])
        if committed is not None and committed.offset >= 0:
            consumer.seek(source, committed.offset)

    async def _copy(self, consumer: Consumer, producer: Producer) -> None:
        source, target = self._copies.source, self._copies.target
        records = await consumer.poll(300, max_records=self.random.choice((1, 5, 20)))
        if not records:
            return
        producer.begin_transaction()
        for record in records:
            await producer.send(
                target.topic,
                self._copies.value(record.offset),
                partition=target.partition,
                timestamp_ms=self.now_ms,
            )
        await producer.send_offsets(self.name, {source: records[-1].offset + 1})
        await producer.commit_transaction()
        self.client.kernel.counts["client: record copied"] += len(records)
        await self.pause(0.1)

    async def _note_committed(self, consumer: Consumer) -> None:
        source = self._copies.source
        while True:
            try:
                committed = (await consumer.committed([source])).get(source)
            except FAILURES:
                await self.pause(0.5)
            else:
                self._copies.committed = -1 if committed is None else committed.offset
                return
