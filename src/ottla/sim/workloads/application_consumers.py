"""Applications that consume with `ottla.client`: without a group, and as members of groups of both protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.client.consumer import Consumer, ConsumerSettings, RebalanceListener
from ottla.model.ids import TopicPartition
from ottla.sim.history import Assignment, Commit
from ottla.sim.workloads.applications import FAILURES, Application
from ottla.sim.workloads.consume import value_of
from ottla.sim.workloads.workload import Stage

__all__ = ["ApplicationMember", "ApplicationReader"]


class ApplicationReader(Application):
    """Reads all partitions from their beginning; every record must come once and in order."""

    def __init__(
        self, stage: Stage, name: str, partitions: Sequence[TopicPartition], *, settings: ConsumerSettings
    ) -> None:
        super().__init__(stage, name, is_killed=False)
        self._partitions = partitions
        self._settings = settings
        self.history.readers[name] = settings.read_committed

    async def main(self) -> None:
        cluster = self.connect()
        consumer = Consumer(cluster, self._settings)
        while not await self._begin(consumer):
            await self.pause(0.5)
        while not self.stage.is_ending or not await self._is_at_end(consumer):
            try:
                records = await consumer.poll(500, max_records=self.random.choice((1, 10, 500)))
            except FAILURES as error:
                self.client.kernel.trace("client: poll failed", f"{self.name}: {error!r}")
                continue
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                self.consumed(self.name, partition, record.offset, value_of(record.value))
                if self._settings.read_committed:
                    self.history.read_committed.append((partition, value_of(record.value)))
            self.client.kernel.counts["client: record consumed"] += len(records)
            await self.pause(0.05)
        await consumer.close()
        await cluster.close()

    async def _begin(self, consumer: Consumer) -> bool:
        try:
            await consumer.assign(self._partitions)
        except FAILURES:
            return False
        return True

    async def _is_at_end(self, consumer: Consumer) -> bool:
        try:
            ends = await consumer.end_offsets(self._partitions)
        except FAILURES:
            return False
        return all(consumer.position(partition) >= end for partition, end in ends.items())


class ApplicationMember(Application):
    """A member of a group that commits what it has received: by itself, or as the client does it automatically."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        settings: ConsumerSettings,
        is_killed: bool,
    ) -> None:
        super().__init__(stage, name, is_killed=is_killed)
        assert settings.group_id is not None
        self._group = settings.group_id
        self._partitions = partitions
        self._settings = settings
        self._resent_after_us = 0

    async def main(self) -> None:
        cluster = self.connect()
        # The shortest pause of the client before it sends a request again.
        self._resent_after_us = cluster.settings.retry_backoff_ms * 800
        consumer = Consumer(cluster, self._settings)
        while not await self._begin(consumer):
            await self.pause(0.5)
        while not self.stage.is_ending or not await self._is_all_committed(consumer):
            await self._read(consumer)
            await self.pause(0.1)
        await consumer.close()
        await cluster.close()

    async def _begin(self, consumer: Consumer) -> bool:
        try:
            await consumer.subscribe(
                sorted({partition.topic for partition in self._partitions}), listener=_Noting(self, consumer)
            )
        except FAILURES:
            return False
        return True

    async def _read(self, consumer: Consumer) -> None:
        try:
            for record in await consumer.poll(500):
                partition = TopicPartition(record.topic, record.partition)
                self.consumed(self._group, partition, record.offset, value_of(record.value))
                self.count("client: record consumed by a member")
            if not self._settings.auto_commit and self.random.random() < 0.5:
                await self._commit(consumer)
        except FAILURES as error:
            self.client.kernel.trace("client: member failed", f"{self.name}: {error!r}")

    async def _commit(self, consumer: Consumer) -> None:
        positions = {
            partition: consumer.position(partition)
            for partition in consumer.assignment
            if consumer.position(partition) >= 0
        }
        if not positions:
            return
        asked_us = self.now_us
        try:
            await consumer.commit(positions)
        except FAILURES:
            self.history.uncertain_commits.extend(self._commits(positions, asked_us))
            raise
        self.count("client: commit")
        commits = self._commits(positions, asked_us)
        self.history.commits.extend(commits)
        if self.now_us - asked_us >= self._resent_after_us:
            # The client may have sent the request again, and the network may still deliver the first one, which then
            # overwrites later commits.
            self.history.uncertain_commits.extend(commits)

    def _commits(self, offsets: dict[TopicPartition, int], asked_us: int) -> list[Commit]:
        return [
            Commit(
                group=self._group,
                partition=partition,
                offset=offset,
                asked_us=asked_us,
                acknowledged_us=self.now_us,
            )
            for partition, offset in offsets.items()
        ]

    def note_assignment(self, partitions: list[TopicPartition], consumer: Consumer) -> None:
        member = consumer.member
        assert member is not None
        self.count("client: assignment")
        self.history.assignments.append(
            Assignment(
                group=self._group,
                member=member.member_id,
                generation=member.generation,
                partitions=frozenset(partitions),
            )
        )

    async def _is_all_committed(self, consumer: Consumer) -> bool:
        """True if the group has committed the end of every partition; notes what it has committed."""
        try:
            ends = await consumer.end_offsets(self._partitions)
            asked_us = self.now_us
            committed = {
                partition: row.offset for partition, row in (await consumer.committed(self._partitions)).items()
            }
        except FAILURES:
            return False
        self.history.fetched_commits.extend(
            Commit(
                group=self._group,
                partition=partition,
                offset=offset,
                asked_us=asked_us,
                acknowledged_us=self.now_us,
            )
            for partition, offset in committed.items()
            if offset >= 0
        )
        await asyncio.sleep(0)
        return all(committed.get(partition, -1) >= end for partition, end in ends.items() if end)


class _Noting(RebalanceListener):
    """Notes assignments for the checker of owners."""

    def __init__(self, member: ApplicationMember, consumer: Consumer) -> None:
        self._member = member
        self._consumer = consumer

    async def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._member.note_assignment(partitions, self._consumer)
