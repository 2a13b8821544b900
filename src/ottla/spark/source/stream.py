"""`spark.readStream.format("ottla")`: a stream of topics.

Spark keeps one Python process with one reader for each stream. It asks the reader for the start of the stream, the end
of the next batch (`latestOffset`, at every trigger) and the tasks of the batch (`partitions`). Workers read the tasks,
with a copy of the reader that has only its options.

A topic may change under a running query: it gets partitions (which are read from their first record), loses records
(`loss.py`), or is deleted and created again with a new topic id. A new topic is read from its beginning, whatever the
offsets of the old topic; the stream keeps its offset until the new topic has a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ottla.model.ids import TopicPartition
from ottla.spark.failures import in_one_sentence
from ottla.spark.options import SourceOptions
from ottla.spark.source.ahead import Ahead, takes_records
from ottla.spark.source.hooks import ProgressHook, hooks_of
from ottla.spark.source.limits import Lag, limit_offsets
from ottla.spark.source.loss import on_loss
from ottla.spark.source.offsets import SourceOffset
from ottla.spark.source.planner import Planner, Topics
from ottla.spark.source.ranges import Range, ranges, read_range

__all__ = ["OttlaStreamReader"]


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Constructed in every process that needs a reader; connections are opened on first use."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: dict[TopicPartition, int] | None = None
        self._latest: dict[str, Any] | None = None
        self._done: dict[str, Any] | None = None
        # The batch that `latestOffset` planned last, for the next call of `partitions`: its start, end and tasks.
        self._planned: tuple[dict[str, Any], dict[str, Any], Sequence[InputPartition]] | None = None
        self._ahead = Ahead(options) if takes_records() else None
        self._planner_made: Planner | None = None
        self._hooks_made: list[ProgressHook] | None = None

    # Offsets.

    @in_one_sentence
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        options = self._options
        topics = self._planner.existing_topics()
        known: dict[TopicPartition, int] = {}
        if options.starting_committed:
            for hook in self._hooks:
                known |= hook.starting(topics.partitions)
        unknown = [partition for partition in topics.partitions if partition not in known]
        offsets = known | self._planner.patiently(lambda: self._planner.resolve(options.starting, unknown))
        return SourceOffset(offsets, dict(topics.ids)).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark takes one limit here; `latestOffset` applies both.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._planner.patiently(lambda: self._planner.latest(self._planner.topics().partitions))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._latest

    @in_one_sentence
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._call_hooks(start)
        return self._planner.patiently(lambda: self._next(start, limit))

    def _next(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = SourceOffset.from_json(start)
        topics = self._topics(before)
        latest = self._planner.latest(topics.partitions)
        self._latest = SourceOffset(latest, dict(topics.ids)).to_json()
        cut_off = self._find_cut_off(before, topics, latest)
        if self._target is not None:
            latest = {
                partition: min(offset, self._target[partition])
                for partition, offset in latest.items()
                if partition in self._target
            }
        begin = self._begin(before, topics, latest)
        lags = {
            partition: Lag(begin[partition], end)
            for partition, end in latest.items()
            if partition in begin and end > begin[partition]
        }
        known = [key for key in lags if key in before.offsets and _same(before, topics, key.topic)]
        earliest = self._planner.earliest(known)
        lost = self._find_losses(earliest, lags) | dict.fromkeys(cut_off, -1)
        if not lags and not cut_off:
            return start
        ends = self._limited(lags, topics, limit) | cut_off
        after = SourceOffset(before.offsets | ends, dict(before.topic_ids), lost)
        self._take_over_topics(after, topics, begin, ends)
        after.begins = {key: begin[key] for key in after.offsets if not _is_known(before, after, key)}
        if self._options.on_data_loss != "report":
            after.lost.clear()
        after_json = after.to_json()
        wanted = _wanted(before, after)
        self._planned = None
        if wanted.keys() <= earliest.keys():
            # Spark asks for the tasks within milliseconds, and the cluster would answer the same.
            self._planned = start, after_json, self._cut(before, after, wanted, earliest)
            if self._ahead is not None:
                self._ahead.request(self._planned[2])
        return after_json

    # Reading.

    @in_one_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planned, self._planned = self._planned, None
        if planned is not None and planned[:2] == (start, end):
            return planned[2]
        if self._ahead is not None:
            self._ahead.forget()
        before, after = SourceOffset.from_json(start), SourceOffset.from_json(end)
        wanted = _wanted(before, after)
        if not wanted:
            return []
        earliest = self._planner.patiently(lambda: self._earliest(after, wanted))
        return self._cut(before, after, wanted, earliest)

    def records_ahead(self) -> Iterator[pa.RecordBatch] | None:
        """The records of the batch of the last call of `partitions`, if they were read ahead (`ahead.py`)."""
        return None if self._ahead is None else self._ahead.take()

    def _earliest(self, after: SourceOffset, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The starts of logs. Workers handle topics that were deleted or created again meanwhile."""
        topics = self._planner.topics()
        return self._planner.earliest(
            [
                partition
                for partition in wanted
                if partition in topics.partitions and _same(after, topics, partition.topic)
            ]
        )

    def _cut(
        self,
        before: SourceOffset,
        after: SourceOffset,
        wanted: dict[TopicPartition, int],
        earliest: dict[TopicPartition, int],
    ) -> Sequence[InputPartition]:
        lags: dict[TopicPartition, Lag] = {}
        for partition, offset in wanted.items():
            begins = before.offsets if _is_known(before, after, partition) else after.begins
            # Checkpoints of earlier versions do not have the start offsets of new partitions.
            begin = min(begins.get(partition, earliest.get(partition, 0)), offset)
            gone = min(earliest.get(partition, 0), offset)
            if begin < gone:
                on_loss(
                    self._options, f"{partition}: offsets {begin} to {gone - 1} were deleted before they were read."
                )
            lags[partition] = Lag(begin, offset)
        return ranges(lags, after.topic_ids, self._options.min_partitions, beginnings=earliest)

    @in_one_sentence
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return read_range(self._options, partition)

    @in_one_sentence
    def commit(self, end: dict[str, Any]) -> None:
        self._call_hooks(end)

    def stop(self) -> None:
        for hook in self._hooks_made or ():
            hook.stop()

    # Helpers.

    @property
    def _planner(self) -> Planner:
        if self._planner_made is None:
            self._planner_made = Planner(self._options)
        return self._planner_made

    @property
    def _hooks(self) -> list[ProgressHook]:
        if self._hooks_made is None:
            self._hooks_made = hooks_of(self._options)
        return self._hooks_made

    def _call_hooks(self, offset: dict[str, Any]) -> None:
        """Calls hooks: Spark plans after an offset only when all records before it are done."""
        if self._options.group_id is not None and offset != self._done:
            done = SourceOffset.from_json(offset)
            for hook in self._hooks:
                hook.done(done)
            self._done = offset

    def _topics(self, before: SourceOffset) -> Topics:
        """The present topics. A missing topic is a data loss, or is waited for."""
        topics = self._planner.topics()
        missing = sorted({partition.topic for partition in before.offsets} - set(topics.ids))
        if missing and self._options.on_data_loss == "fail":
            description = (
                f"Topic {missing[0]} was deleted while the query was reading it, or its options name it no more."
            )
            on_loss(self._options, description)
        return topics

    def _begin(
        self, before: SourceOffset, topics: Topics, latest: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The start offset of every partition: the previous offset, or the first record of a new partition."""
        renewed = {topic for topic in topics.ids if not _same(before, topics, topic)}
        for topic in sorted(renewed):
            if any(partition.topic == topic for partition in before.offsets) and self._options.on_data_loss == "fail":
                on_loss(self._options, f"Topic {topic} was deleted and made again while the query was reading it.")
        fresh = [partition for partition in latest if partition not in before.offsets or partition.topic in renewed]
        begin = {partition: before.offsets[partition] for partition in latest if partition in before.offsets}
        return begin | (self._planner.earliest(fresh) if fresh else {})

    def _find_cut_off(
        self, before: SourceOffset, topics: Topics, latest: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The ends of logs that are shorter than the query's position; new records there would be skipped."""
        stands = {
            partition: before.offsets[partition]
            for partition, end in latest.items()
            if end < before.offsets.get(partition, 0) and _same(before, topics, partition.topic)
        }
        cut_off = self._planner.cut_off(stands) if stands else {}
        for partition, end in cut_off.items():
            on_loss(
                self._options,
                f"{partition}: the log ends at offset {end}, and the query stands at {stands[partition]}.",
            )
        return cut_off

    def _find_losses(
        self, earliest: dict[TopicPartition, int], lags: dict[TopicPartition, Lag]
    ) -> dict[TopicPartition, int]:
        """Moves positions up to the start of the logs; returns the number of lost offsets by partition."""
        lost: dict[TopicPartition, int] = {}
        for partition, first in earliest.items():
            lag = lags[partition]
            if first > lag.start:
                gone = min(first, lag.end)
                on_loss(
                    self._options, f"{partition}: offsets {lag.start} to {gone - 1} were deleted before they were read."
                )
                lost[partition] = gone - lag.start
                lags[partition] = Lag(gone, lag.end)
        return lost

    def _limited(self, lags: dict[TopicPartition, Lag], topics: Topics, limit: ReadLimit) -> dict[TopicPartition, int]:
        if isinstance(limit, ReadAllAvailable):
            return {partition: lag.end for partition, lag in lags.items()}
        options = self._options
        if options.max_offsets_per_trigger is not None:
            ends = limit_offsets(lags, options.max_offsets_per_trigger)
            lags = {partition: Lag(lag.start, ends[partition]) for partition, lag in lags.items()}
        if options.max_bytes_per_trigger is not None:
            sizes = {
                partition: self._planner.bytes_per_offset(partition, topics.ids[partition.topic], lag.start, lag.end)
                for partition, lag in lags.items()
                if lag.size
            }
            ends = limit_offsets(lags, options.max_bytes_per_trigger, sizes)
            lags = {partition: Lag(lag.start, ends[partition]) for partition, lag in lags.items()}
        return {partition: lag.end for partition, lag in lags.items()}

    def _take_over_topics(
        self, after: SourceOffset, topics: Topics, begin: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> None:
        """Stores the topic ids of topics from which the batch reads."""
        for topic in {partition.topic for partition in ends}:
            known, now = after.topic_ids.get(topic, ""), topics.ids[topic]
            after.topic_ids[topic] = now
            if known in ("", now):
                continue
            on_loss(self._options, f"Topic {topic} was deleted and made again; it is read from its beginning.")
            partitions = [partition for partition in begin if partition.topic == topic]
            after.offsets = {
                partition: offset for partition, offset in after.offsets.items() if partition.topic != topic
            }
            after.offsets |= {partition: ends.get(partition, begin[partition]) for partition in partitions}
            after.lost |= dict.fromkeys(partitions, -1)


def _same(offset: SourceOffset, topics: Topics, topic: str) -> bool:
    """True if the topic id is unchanged or unknown."""
    return offset.topic_ids.get(topic, "") in ("", topics.ids.get(topic, "")) or not topics.ids.get(topic, "")


def _same_id(before: SourceOffset, after: SourceOffset, topic: str) -> bool:
    return before.topic_ids.get(topic, "") in ("", after.topic_ids.get(topic, ""))


def _is_known(before: SourceOffset, after: SourceOffset, partition: TopicPartition) -> bool:
    """True if the start offset of the batch contains the partition."""
    return partition in before.offsets and _same_id(before, after, partition.topic)


def _wanted(before: SourceOffset, after: SourceOffset) -> dict[TopicPartition, int]:
    """The ends of the partitions from which the batch reads."""
    return {partition: offset for partition, offset in after.offsets.items() if _moved(before, after, partition)}


def _moved(before: SourceOffset, after: SourceOffset, partition: TopicPartition) -> bool:
    if not _same_id(before, after, partition.topic):
        return True
    return before.offsets.get(partition) != after.offsets[partition]
