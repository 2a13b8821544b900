"""`Consumer`: assign or subscribe, then poll records, or whole batches if records need not be decoded.

Positions move when records are returned. Rebalances happen inside `poll` only, so an automatic commit covers the
records that the caller has processed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer.decode import ConsumedBatch, ConsumedRecord, decode_batch
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.group_classic import ClassicMembership
from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.membership import Identity, Membership, Subscription
from ottla.client.consumer.positions import PartitionState, Positions
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.truncation import EpochEnd
from ottla.client.errors import ClientError, LogTruncated, check
from ottla.client.leaders import by_topic
from ottla.client.measures import CONSUMER_METRICS, Recent, tell
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

__all__ = ["Consumer"]

_NAMES_VERSION_MAX = 9
# The wait of all partitions for a position that is not known at once, and the pause before its next lookup.
_LOOK_MS = 2_000
_LOOK_AGAIN_SECONDS = 5.0

Listener = Callable[[list[TopicPartition]], Awaitable[None]]


class Consumer:
    """An async context manager. One event loop owns it; see `blocking` for threads.

    The first argument is a dictionary with Kafka's configuration keys, or typed settings together with the second.
    """

    def __init__(
        self, settings: ClientSettings | Cluster | Mapping[str, Any], consumer: ConsumerSettings | None = None
    ) -> None:
        if isinstance(settings, Mapping):
            # Imported with the first dictionary: settings in types need no reader.
            from ottla.client.config.consumer import read_consumer
            from ottla.client.config.reading import configure_plugins

            config = settings
            settings, configured = read_consumer(config)
            configure_plugins(configured.interceptors, config)
            consumer = consumer or configured
        self.settings = consumer or ConsumerSettings()
        self._owned = isinstance(settings, ClientSettings)
        self._cluster = Cluster(settings) if isinstance(settings, ClientSettings) else settings
        self._groups = Groups(self._cluster)
        self._offsets = Offsets(self._cluster)
        self._positions = Positions()
        self._fetcher = Fetcher(
            self._cluster, self.settings, self._positions, self._on_out_of_range, self._on_truncated
        )
        self._interceptors = ConsumerInterceptors(self.settings.interceptors)
        self._membership: Membership | None = None
        self._on_assigned: Listener | None = None
        self._on_revoked: Listener | None = None
        self._commit_due = 0.0
        self._closed = False
        self.measures = self._fetcher.measures
        self._recent = Recent(
            self.measures, self._cluster.measures, window_seconds=self._cluster.settings.metrics_window_ms / 1000
        )

    def metrics(self) -> dict[str, float]:
        """Recent rates and averages under Kafka's names; `measures` has the totals."""
        return tell(CONSUMER_METRICS, self._recent)

    # Assignment and positions.

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these partitions, without group membership."""
        wanted = list(partitions)
        await self._cluster.refresh(
            sorted({partition.topic for partition in wanted}), create=self.settings.allow_auto_create
        )
        for partition in wanted:
            info = self._cluster.metadata.topics.get(partition.topic)
            if info is None or (info.error is not None and not info.error.code.retriable):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {partition.topic!r}.")
        self._positions.assign(wanted)

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
    ) -> None:
        """Becomes a member of the group at the next poll."""
        if self.settings.group_id is None:
            raise ClientError("A consumer that subscribes needs a group; set one with --group.")
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        subscription = Subscription(tuple(topics), pattern)
        kind = ClassicMembership if self.settings.group_protocol == "classic" else ConsumerMembership
        if subscription.topics:
            await self._cluster.refresh(list(subscription.topics), create=self.settings.allow_auto_create)
        self._membership = kind(self._cluster, self.settings, subscription, self._on_rebalance)

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._positions.states)

    @property
    def member(self) -> Identity | None:
        return None if self._membership is None else self._membership.identity

    def pause(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._positions.get(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._positions.get(partition).paused = False

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Moves to an offset. The leader epoch of the previous record allows to detect a truncated log."""
        self._positions.get(partition).seek(offset, leader_epoch)

    async def seek_to(self, time: int, *partitions: TopicPartition) -> None:
        """Moves to the first offset (`EARLIEST`), the end (`LATEST`), or the first record from a timestamp on."""
        wanted = partitions or tuple(self._positions.states)
        for partition, found in (await self.offsets_for_times(dict.fromkeys(wanted, time))).items():
            offset = found.offset if found is not None else (await self.end_offsets([partition]))[partition]
            self._positions.get(partition).seek(offset)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next returned record; -1 if it is not known yet."""
        return self._positions.get(partition).position

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of records up to the last known end of the partition."""
        state = self._positions.get(partition)
        end = state.last_stable_offset if self.settings.read_committed else state.high_watermark
        return None if end < 0 or state.position < 0 else max(end - state.position, 0)

    # Reading.

    async def poll(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> list[ConsumedRecord]:
        """The next records, at least one unless the time-out expires."""
        limit = self.settings.max_poll_records if max_records is None else max_records
        end = self._cluster.deadline(timeout_ms)
        found: list[ConsumedRecord] = []
        while True:
            await self._work()
            while len(found) < limit:
                batch = self._fetcher.take()
                if batch is None:
                    break
                try:
                    found += self._open(batch, self._positions.get(batch.partition), limit - len(found))
                except (CorruptRecords, ValueError):
                    # The position stays before the bad batch until a seek; earlier records are returned first.
                    self._fetcher.put_back(batch)
                    if not found:
                        raise
                    break
            if found or not await self._wait(end):
                self.measures.records += len(found)
                return self._interceptors.on_consume(found) if found and self._interceptors else found

    async def batches(self, timeout_ms: int = 1_000) -> list[ConsumedBatch]:
        """All fetched data as whole batches. The first batch may contain records before the position."""
        end = self._cluster.deadline(timeout_ms)
        while True:
            await self._work()
            found = []
            while (batch := self._fetcher.take()) is not None:
                state = self._positions.get(batch.partition)
                state.position = batch.header.next_offset
                state.leader_epoch = batch.header.leader_epoch
                if len(batch.view):
                    found.append(batch)
            if found or not await self._wait(end):
                self.measures.records += sum(batch.header.record_count for batch in found)
                return found

    # Offsets.

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commits these offsets, or the positions of all assigned partitions. Raises KafkaError or ClientError."""
        if self.settings.group_id is None:
            raise ClientError("Committing offsets needs a group; set one with --group.")
        commits = (
            {
                partition: CommittedOffset(offset, epoch)
                for partition, (offset, epoch) in self._positions.committable().items()
            }
            if offsets is None
            else {
                partition: value if isinstance(value, CommittedOffset) else CommittedOffset(value)
                for partition, value in offsets.items()
            }
        )
        if commits:
            begun = asyncio.get_running_loop().time()
            self.measures.commits += 1
            try:
                await self._cluster.retry(lambda: self._commit_once(commits), again=_commits_again)
            except BaseException:
                self.measures.failed_commits += 1
                raise
            finally:
                self.measures.commit_seconds += asyncio.get_running_loop().time() - begun
            self._interceptors.on_commit(commits)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        assert self.settings.group_id is not None
        group_id, wanted = self.settings.group_id, list(partitions)
        # Retried while a transaction with some of these offsets is completing.
        return await self._cluster.retry(lambda: self._groups.offsets(group_id, wanted, stable=True))

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset | None]:
        """The first record from each timestamp on; None if there is none."""
        found = await self._offsets.find(times, committed=self.settings.read_committed)
        result: dict[TopicPartition, FoundOffset | None] = {}
        for partition, answer in found.items():
            if isinstance(answer, KafkaError):
                raise KafkaError(answer.code, f"{partition}: {answer.message}")
            result[partition] = None if answer.offset < 0 else answer
        return result

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets.numbers(partitions, EARLIEST, committed=self.settings.read_committed)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._offsets.numbers(partitions, LATEST, committed=self.settings.read_committed)

    async def knows(self, topic: str) -> bool:
        """True if the topic exists."""
        info = (await self._cluster.refresh([topic])).topics.get(topic)
        return info is not None and (info.error is None or bool(info.partitions))

    async def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in (await self._cluster.topic(topic)).partitions]

    # Close.

    async def close(self) -> None:
        """Commits if auto-commit is on, and leaves the group."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._membership is not None:
                await self._commit_quietly()
                await self._membership.leave()
        finally:
            await self._fetcher.close()
            self._interceptors.close()
            if self._owned:
                await self._cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Internals.

    async def _work(self) -> None:
        """Does everything that is due before records can be returned."""
        if self._membership is not None:
            await self._membership.poll()
            await self._commit_when_due()
        if self._fetcher.failure is not None:
            failure, self._fetcher.failure = self._fetcher.failure, None
            raise failure
        now = asyncio.get_running_loop().time()
        unknown = [
            partition for partition in self._positions.unknown if self._positions.get(partition).look_again <= now
        ]
        if unknown:
            await self._find_positions(unknown)
        self._fetcher.start()

    async def _wait(self, end: float) -> bool:
        """Waits for records, the group, or the next lookup of a position; returns False at the deadline."""
        loop = asyncio.get_running_loop()
        if self._fetcher.has_next or self._fetcher.failure is not None:
            return True
        until = min([end, *[self._positions.get(one).look_again for one in self._positions.unknown]])
        self._fetcher.arrived.clear()
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._fetcher.arrived.wait())]
        if self._membership is not None:
            waits.append(asyncio.ensure_future(self._membership.wait()))
        try:
            left = max(until - loop.time(), 0)
            done, _ = await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return bool(done) or loop.time() < end

    def _open(self, batch: ConsumedBatch, state: PartitionState, limit: int) -> list[ConsumedRecord]:
        header = batch.header
        records = (
            decode_batch(batch.partition, header, batch.view, from_offset=state.position) if len(batch.view) else []
        )
        state.leader_epoch = header.leader_epoch
        if len(records) > limit:
            del records[limit:]
            state.position = records[-1].offset + 1
            self._fetcher.put_back(batch)
        else:
            state.position = max(header.next_offset, records[-1].offset + 1 if records else 0)
        return records

    def _on_out_of_range(self, state: PartitionState) -> None:
        if self.settings.auto_offset_reset == "none":
            self._fetcher.failure = KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{state.partition} has no offset {state.fetch_offset}; begin elsewhere, as with --from-beginning.",
            )
        else:
            state.reset()

    def _on_truncated(self, state: PartitionState, end: EpochEnd | None) -> None:
        """The log was truncated before the position: records that were read are gone, and new ones replace them."""
        if self.settings.auto_offset_reset == "none":
            self._fetcher.failure = LogTruncated(
                state.partition, position=state.position, leader_epoch=state.leader_epoch, end=end
            )
        elif end is None:
            state.reset()
        else:
            state.seek(end.offset, end.epoch)

    async def _find_positions(self, partitions: list[TopicPartition]) -> None:
        """Sets positions to committed offsets, or by the reset policy if there is none or it is out of range."""
        left = partitions
        asked = [partition for partition in partitions if not self._positions.get(partition).forgets_commits]
        if self.settings.group_id is not None and asked:
            committed = await self.committed(asked)
            for partition, found in committed.items():
                state = self._positions.states.get(partition)
                if state is not None and state.position < 0:
                    state.seek(found.offset, found.leader_epoch)
            left = [partition for partition in partitions if partition not in committed]
        if not left:
            return
        if self.settings.auto_offset_reset == "none":
            raise ClientError(f"There is no committed offset for {left[0]}, and auto_offset_reset is none.")
        times = dict.fromkeys(left, self._reset_time())
        missing = await self._begin_at(times, timeout_ms=_LOOK_MS)
        if missing and len(self._positions.unknown) == len(self._positions.states):
            # There are no other partitions to read meanwhile.
            missing = await self._begin_at({partition: times[partition] for partition in missing})
            for partition, error in missing.items():
                raise KafkaError(error.code, f"{partition}: {error.message}")

    def _reset_time(self) -> int:
        """The time of the first record to read without a committed offset."""
        age_ms = self.settings.reset_age_ms
        if age_ms is not None:
            return max(int(time.time() * 1000) - age_ms, 0)
        return EARLIEST if self.settings.auto_offset_reset == "earliest" else LATEST

    async def _begin_at(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError]:
        """Sets positions by time. Returns the partitions without a leader, which the others do not wait for."""
        found = await self._offsets.find(times, committed=self.settings.read_committed, timeout_ms=timeout_ms)
        missing: dict[TopicPartition, KafkaError] = {}
        for partition, answer in found.items():
            state = self._positions.states.get(partition)
            if state is None or state.position >= 0:
                continue
            if isinstance(answer, FoundOffset) and answer.offset >= 0:
                state.seek(answer.offset)
            elif isinstance(answer, FoundOffset):
                # No record is as young as the duration: the partition is read from its end.
                state.seek((await self.end_offsets([partition]))[partition])
            else:
                state.look_again = asyncio.get_running_loop().time() + _LOOK_AGAIN_SECONDS
                missing[partition] = answer
        for partition, error in missing.items():
            if not error.code.retriable or error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(error.code, f"{partition}: {error.message}")
        return missing

    async def _on_rebalance(self, revoked: list[TopicPartition], assigned: list[TopicPartition]) -> None:
        before = set(self._positions.states)
        self.measures.rebalances += 1
        if revoked:
            if self._membership is not None and self._membership.is_member:
                # A removed member commits nothing: other members may have committed since.
                await self._commit_quietly()
            if self._on_revoked is not None:
                await self._on_revoked(revoked)
        self._positions.assign(assigned)
        added = [partition for partition in assigned if partition not in before]
        if self._on_assigned is not None and (added or not revoked):
            await self._on_assigned(added)

    async def _commit_when_due(self) -> None:
        if not self.settings.auto_commit:
            return
        now = asyncio.get_running_loop().time()
        if self._commit_due == 0.0:
            self._commit_due = now + self.settings.auto_commit_interval_ms / 1000
        elif now >= self._commit_due:
            self._commit_due = now + self.settings.auto_commit_interval_ms / 1000
            await self._commit_quietly()

    async def _commit_quietly(self) -> None:
        """Commits automatically. After a failure the next commit covers the same offsets."""
        if not self.settings.auto_commit:
            return
        try:
            async with asyncio.timeout(5):
                await self.commit()
        except (KafkaError, ClientError, TimeoutError):
            return

    async def _commit_once(self, commits: dict[TopicPartition, CommittedOffset]) -> None:
        assert self.settings.group_id is not None
        if self._membership is not None and not self._membership.is_member:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "This consumer is not a member of its group.")
        member = self.member or Identity("", -1, None)
        request = OffsetCommitRequest(
            group_id=self.settings.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_commit_of(number, commits[TopicPartition(topic, number)]) for number in numbers],
                )
                for topic, numbers in by_topic(commits).items()
            ],
        )

        def codes(answer: OffsetCommitResponse) -> list[int]:
            return [partition.error_code for topic in answer.topics for partition in topic.partitions]

        response: OffsetCommitResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP, self.settings.group_id, request, codes, version_max=_NAMES_VERSION_MAX
        )
        for code in codes(response):
            check(code)


def _commit_of(number: int, commit: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def _commits_again(error: KafkaError) -> bool:
    """True for a stale member epoch, which the next heartbeat renews (KIP-848)."""
    return error.code.retriable or error.code == ErrorCode.STALE_MEMBER_EPOCH
