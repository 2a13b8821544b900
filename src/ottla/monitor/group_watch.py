"""Watches the lag of groups: offsets, time, and a judgement by the movement of both."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import LATEST
from ottla.client.consumer import Consumer
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.consumer.settings import ConsumerSettings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.monitor.lag import LagSample, LagWindow, Status, worst

__all__ = ["GroupStatus", "GroupWatch", "PartitionStatus", "groups_text"]

# Offset requests of groups in flight at the same time.
QUESTIONS_MAX = 16
# How long the search for the timestamps of unread records may take, in all partitions together.
TIMESTAMPS_SECONDS_MAX = 5.0

_WITH_MEMBERS = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    topic: str
    partition: int
    status: Status
    committed: int
    end: int
    lag: int
    # The age of the first record that the group has not read; None if unknown.
    lag_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    group: str
    state: str
    status: Status
    lag: int
    lag_seconds: float | None
    partitions: tuple[PartitionStatus, ...]


class GroupWatch:
    """Takes a sample of all groups with each `look`."""

    def __init__(
        self,
        admin: AdminClient,
        *,
        pattern: str = "",
        window: int = 10,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._admin = admin
        self._pattern = re.compile(pattern)
        self._window = window
        self._clock = clock
        self._windows: dict[tuple[str, TopicPartition], LagWindow] = {}

    async def look(self) -> list[GroupStatus]:
        """The status of every group that the pattern matches and that has committed offsets."""
        groups = [
            group
            for group in await self._admin.groups.find()
            if group.type in ("", "classic", "consumer") and self._pattern.search(group.group_id)
        ]
        limit = asyncio.Semaphore(QUESTIONS_MAX)

        async def ask(group_id: str) -> dict[TopicPartition, CommittedOffset]:
            async with limit:
                return await self._admin.groups.offsets(group_id)

        offsets = await asyncio.gather(*[ask(group.group_id) for group in groups])
        end_offsets = await self._admin.offsets.find(
            dict.fromkeys({partition for commits in offsets for partition in commits}, LATEST)
        )
        ends = {partition: end.offset for partition, end in end_offsets.items() if not isinstance(end, KafkaError)}
        unread = {
            (partition, commit.offset)
            for commits in offsets
            for partition, commit in commits.items()
            if partition in ends and commit.offset < ends[partition]
        }
        times = await self._timestamps(unread)
        now = self._clock()
        result = []
        for group, committed in zip(groups, offsets, strict=True):
            rows = list(self._rows(group.group_id, group.state in _WITH_MEMBERS, committed, ends, times, now))
            if rows:
                result.append(_summed(group.group_id, group.state, rows))
        known = {
            (group.group_id, partition) for group, commits in zip(groups, offsets, strict=True) for partition in commits
        }
        self._windows = {key: window for key, window in self._windows.items() if key in known}
        return result

    def _rows(
        self,
        group: str,
        has_members: bool,
        committed: Mapping[TopicPartition, CommittedOffset],
        ends: Mapping[TopicPartition, int],
        times: Mapping[tuple[TopicPartition, int], int],
        now: float,
    ) -> Iterator[PartitionStatus]:
        for partition, commit in committed.items():
            end = ends.get(partition)
            # The topic is deleted, or has no leader now.
            if end is None:
                continue
            sample = LagSample(now, commit.offset, end, has_members)
            window = self._windows.setdefault((group, partition), LagWindow(self._window))
            status = window.add(sample)
            timestamp = times.get((partition, commit.offset))
            yield PartitionStatus(
                topic=partition.topic,
                partition=partition.partition,
                status=status,
                committed=commit.offset,
                end=end,
                lag=sample.lag,
                lag_seconds=0.0 if not sample.lag else _age(timestamp, now),
            )

    async def _timestamps(self, unread: Iterable[tuple[TopicPartition, int]]) -> dict[tuple[TopicPartition, int], int]:
        """The timestamp of the record at each of these offsets, read from the log."""
        waiting: dict[TopicPartition, list[int]] = {}
        for partition, offset in unread:
            waiting.setdefault(partition, []).append(offset)
        timestamps: dict[tuple[TopicPartition, int], int] = {}
        deadline = time.monotonic() + TIMESTAMPS_SECONDS_MAX
        # The broker sends at least one batch for each partition, however small the limit.
        settings = ConsumerSettings(auto_commit=False, partition_fetch_bytes=1, auto_offset_reset="earliest")
        while waiting and time.monotonic() < deadline:
            # Each turn reads one offset per partition: groups at different offsets of a partition take turns.
            turn = {partition: offsets.pop() for partition, offsets in waiting.items()}
            waiting = {partition: offsets for partition, offsets in waiting.items() if offsets}
            async with Consumer(self._admin.connections, settings) as consumer:
                await consumer.assign(turn)
                for partition, offset in turn.items():
                    consumer.seek(partition, offset)
                while turn and (left := deadline - time.monotonic()) > 0:
                    for batch in await consumer.raw_batches(int(min(left, 1.0) * 1000)):
                        # Further batches of a partition are not needed.
                        if batch.partition in turn:
                            offset = turn.pop(batch.partition)
                            consumer.pause(batch.partition)
                            timestamps[(batch.partition, offset)] = _timestamp_at(batch, offset)
        return timestamps


def _timestamp_at(batch: ConsumedBatch, offset: int) -> int:
    if batch.header.base_offset >= offset:
        return batch.header.base_timestamp
    records = batch.records(from_offset=offset)
    return records[0].timestamp if records else batch.header.max_timestamp


def _age(timestamp_ms: int | None, now: float) -> float | None:
    return None if timestamp_ms is None or timestamp_ms < 0 else round(max(now - timestamp_ms / 1000, 0.0), 3)


def _summed(group: str, state: str, rows: list[PartitionStatus]) -> GroupStatus:
    ages = [row.lag_seconds for row in rows if row.lag_seconds is not None]
    return GroupStatus(
        group=group,
        state=state,
        status=worst(row.status for row in rows),
        lag=sum(row.lag for row in rows),
        lag_seconds=max(ages, default=None),
        partitions=tuple(rows),
    )


def groups_text(groups: Iterable[GroupStatus]) -> Iterator[str]:
    """The text format of Prometheus."""
    rows = list(groups)
    yield "# HELP ottla_monitor_group_status 0 OK, 1 warning, 2 rewind, 3 stalled, 4 stopped.\n"
    yield "# TYPE ottla_monitor_group_status gauge\n"
    yield "".join(f"ottla_monitor_group_status{{{_label('group', row.group)}}} {int(row.status)}\n" for row in rows)
    yield "# HELP ottla_monitor_group_lag_records Records that the group has not read.\n"
    yield "# TYPE ottla_monitor_group_lag_records gauge\n"
    yield "".join(
        f"ottla_monitor_group_lag_records{{{_of_partition(row, partition)}}} {partition.lag}\n"
        for row in rows
        for partition in row.partitions
    )
    yield "# HELP ottla_monitor_group_lag_seconds Age of the first record that the group has not read.\n"
    yield "# TYPE ottla_monitor_group_lag_seconds gauge\n"
    yield "".join(
        f"ottla_monitor_group_lag_seconds{{{_of_partition(row, partition)}}} {partition.lag_seconds}\n"
        for row in rows
        for partition in row.partitions
        if partition.lag_seconds is not None
    )


def _of_partition(group: GroupStatus, partition: PartitionStatus) -> str:
    return f'{_label("group", group.group)},{_label("topic", partition.topic)},partition="{partition.partition}"'


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
