"""Queries of a source to the cluster: topics, their ends, offsets by time, sizes of records.

The planner runs on the driver's side, in the process that Spark keeps for a stream or starts to plan a batch.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.client.metadata import TopicInfo
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.spark.client import WaitingClient, client_of
from ottla.spark.options import EARLIEST, LATEST, OptionError, Point, SourceOptions
from ottla.spark.source.fetch import RangeReader
from ottla.spark.source.limits import Lag

__all__ = ["Planner", "Topics"]

T = TypeVar("T")

# The sample of a partition from which the size of its records is estimated, in bytes.
_SAMPLE_BYTES = 64 * 1024
# The number of checks of a log that seems too short: a stale leader may report an old end.
_LOOKS = 3
_LOOK_SECONDS = 1.0
# The time for which a leader may refuse a new partition, and the interval of retries.
_UNKNOWN_SECONDS = 10.0
_UNKNOWN_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Topics:
    """The present metadata of the selected topics."""

    ids: Mapping[str, str]
    partitions: tuple[TopicPartition, ...]


class Planner:
    """Queries the cluster; nothing is cached."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: WaitingClient = client_of(options.client)

    def topics(self) -> Topics:
        """The selected topics that exist."""
        selection = self._options.selection
        cluster = self._client.cluster
        if selection.pattern is not None:
            self._client.run(cluster.refresh(None))
            matches = re.compile(selection.pattern).fullmatch
            names = [name for name, info in cluster.metadata.topics.items() if matches(name) and not info.is_internal]
        else:
            names = list(selection.topics or dict.fromkeys(partition.topic for partition in selection.partitions))
            self._client.run(cluster.refresh(names))
        existing: dict[str, TopicInfo] = {}
        for name in sorted(names):
            info = cluster.metadata.topics.get(name)
            if info is None:
                continue
            if info.error is None:
                existing[name] = info
            elif not info.error.code.retriable and info.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(info.error.code, f"{name}: {info.error.message}")
        partitions = [TopicPartition(name, number) for name, info in existing.items() for number in info.partitions]
        if selection.partitions:
            wanted = set(selection.partitions)
            partitions = [partition for partition in partitions if partition in wanted]
        ids = {name: str(info.topic_id) if info.topic_id else "" for name, info in existing.items()}
        return Topics(ids, tuple(partitions))

    def existing_topics(self) -> Topics:
        """The selected topics of a new query, all of which must exist."""
        topics = self.topics()
        selection = self._options.selection
        named = selection.topics or tuple(dict.fromkeys(partition.topic for partition in selection.partitions))
        missing = [name for name in named if name not in topics.ids]
        if missing:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {missing[0]!r}.")
        gone = set(selection.partitions) - set(topics.partitions)
        if gone:
            partition = min(gone)
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {partition.topic!r} has no partition {partition.partition}.",
            )
        return topics

    def patiently(self, look: Callable[[], T]) -> T:
        """Retries while a leader does not have a partition that metadata contains.

        Brokers learn of new topics, new partitions and deletions at different times, which must not fail a query.
        """
        now = self._client.loop.time
        end = now() + _UNKNOWN_SECONDS
        while True:
            try:
                return look()
            except KafkaError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or now() >= end:
                    raise
            self._client.run(asyncio.sleep(_UNKNOWN_PAUSE_SECONDS))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets for the isolation level."""
        return self._numbers(dict.fromkeys(partitions, LATEST))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The start offsets of the logs."""
        return self._numbers(dict.fromkeys(partitions, EARLIEST))

    def cut_off(self, stands: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The partitions whose log ends before the given offset, with the end that was seen first: records are lost."""
        ends: dict[TopicPartition, int] = {}
        left = dict(stands)
        for look in range(_LOOKS):
            if look:
                self._client.run(asyncio.sleep(_LOOK_SECONDS))
                self.topics()
            # The end for uncommitted records: an open transaction hides it from readers of committed records.
            log_ends = self._numbers(dict.fromkeys(left, LATEST), committed=False)
            ends = {
                partition: min(log_ends[partition], ends.get(partition, log_ends[partition]))
                for partition in left
                if log_ends[partition] < left[partition]
            }
            left = {partition: left[partition] for partition in ends}
            if not left:
                break
        return ends

    def resolve(
        self, point: Point, partitions: Iterable[TopicPartition], *, is_end: bool | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets of a point; given offsets are used as they are."""
        partitions = list(partitions)
        unknown = sorted({*point.offsets, *point.times_ms} - set(partitions))
        if unknown:
            raise OptionError(f"An offset is given for {unknown[0]}, which the query does not read.")
        offsets: dict[TopicPartition, int] = {}
        times: dict[TopicPartition, int] = {}
        for partition in partitions:
            time_ms = point.times_ms.get(partition, point.time_ms)
            if time_ms is not None:
                times[partition] = time_ms
                continue
            number = point.offsets.get(partition, point.everywhere)
            assert number is not None
            if number >= 0:
                offsets[partition] = number
            elif number in (EARLIEST, LATEST):
                times[partition] = number
            else:
                raise OptionError(f"{number} is not an offset of {partition}; use -1 for latest and -2 for earliest.")
        if times:
            offsets |= self._at(times, is_end=point is self._options.ending if is_end is None else is_end)
        return offsets

    def bytes_per_offset(self, partition: TopicPartition, topic_id: str, start: int, end: int) -> float:
        """The bytes of the log per offset, estimated from a sample at the start of the range."""
        batches = RangeReader(self._client, self._options, partition, topic_id, start, end).peek(_SAMPLE_BYTES)
        if not batches:
            return 0.0
        offsets = batches[-1].header.next_offset - batches[0].header.base_offset
        return sum(batch.header.size for batch in batches) / max(1, offsets)

    def lags(self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> dict[TopicPartition, Lag]:
        return {
            partition: Lag(begin[partition], end[partition]) for partition in end if end[partition] > begin[partition]
        }

    def _numbers(
        self, times: Mapping[TopicPartition, int], *, committed: bool | None = None
    ) -> dict[TopicPartition, int]:
        offsets_and_times = self._offsets_and_times(times, committed=committed)
        return {partition: offset for partition, (offset, _) in offsets_and_times.items()}

    def _at(self, times: Mapping[TopicPartition, int], *, is_end: bool) -> dict[TopicPartition, int]:
        """The first offsets from the timestamps on. A query may end after the last record, but not start there."""
        offsets: dict[TopicPartition, int] = {}
        late: list[TopicPartition] = []
        for partition, (offset, _) in self._offsets_and_times(times).items():
            if offset < 0:
                late.append(partition)
            else:
                offsets[partition] = offset
        if late and self._options.late_time == "error" and not is_end:
            raise OptionError(
                f"{late[0]} has no record as young as {times[late[0]]} ms; set option "
                "startingOffsetsByTimestampStrategy to 'latest' to begin behind its last one."
            )
        if late:
            offsets |= self.latest(late)
        return offsets

    def _offsets_and_times(
        self, times: Mapping[TopicPartition, int], *, committed: bool | None = None
    ) -> dict[TopicPartition, tuple[int, int]]:
        if not times:
            return {}
        committed = self._options.read_committed if committed is None else committed
        answers = self._client.run(self._client.admin.offsets.find(times, committed=committed))
        offsets_and_times = {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise KafkaError(answer.code, f"{partition}: {answer.message}")
            offsets_and_times[partition] = (answer.offset, answer.timestamp)
        return offsets_and_times
