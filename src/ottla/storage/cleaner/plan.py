"""Plans of cleanings: made on the loop's thread, and handed to a worker as plain values.

A log has a clean part, which is compacted, then a dirty part, then a part that may not be cleaned yet: the active
segment, records of undecided transactions or above the high watermark, and segments younger than
`min.compaction.lag.ms`. The log with the highest dirty ratio is cleaned first. The ratio has to exceed
`min.cleanable.dirty.ratio`, unless the dirty part has waited longer than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.model.values import Value
from ottla.storage.log import PartitionLog
from ottla.storage.names import TRANSACTION_INDEX_SUFFIX
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["CleaningPlan", "Dirtiness", "LastRecord", "SegmentSource", "group_sources", "measure", "plan_cleaning"]

_RELATIVE_OFFSET_MAX = (1 << 31) - 1
_INDEX_ENTRY_BYTES = 8
_TIME_INDEX_ENTRY_BYTES = 12


class Dirtiness(Value):
    """The part of a log that could be cleaned now."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    """The base offset of the first segment that may not be cleaned."""
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """How long the oldest dirty segment has waited beyond `max.compaction.lag.ms`; 0 if it has not."""
    is_checkpoint_invalid: bool
    """The checkpoint is outside of the log and has to be corrected."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        return self.cleanable_bytes > 0 and (self.overdue_ms > 0 or self.ratio > min_cleanable_dirty_ratio)


class SegmentSource(Value):
    """A closed segment as plain values for a worker. Only the loop's thread may use the segment itself."""

    segment: Segment
    path: str
    base_offset: int
    end_offset: int
    """The base offset of the next segment."""
    size: int
    modified_ms: int
    index_bytes: int = 0


class LastRecord(NamedTuple):
    """The last data offset of an active producer, or -1 if only a marker of its epoch is left."""

    last_data_offset: int
    producer_epoch: int


class CleaningPlan(Value):
    """Everything that a worker needs for one cleaning."""

    directory: str
    first_dirty_offset: int
    upper_bound_offset: int
    sources: tuple[SegmentSource, ...]
    """Every closed segment below the upper bound, including clean ones."""
    transaction_index_paths: tuple[str, ...]
    """The transaction indexes of all segments: the abort of a transaction may be far behind its data."""
    unwritten_aborted: tuple[AbortedTransaction, ...]
    """Aborted transactions that are in memory only, because the disk was full."""
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int


def measure(log: PartitionLog, *, checkpoint: int | None, now_ms: int) -> Dirtiness:
    """The dirtiness of a log, given its first dirty offset in the checkpoint."""
    log_start_offset = log.log_start_offset
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    is_invalid = first_dirty < log_start_offset or first_dirty > log.log_end_offset
    if is_invalid:
        first_dirty = log_start_offset
    closed = [segment for segment in log.segments if segment is not log.segments.active]
    dirty = [segment for segment in log.segments.from_offset(first_dirty) if segment is not log.segments.active]
    uncleanable = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp() > now_ms - lag_ms:
                uncleanable = min(uncleanable, segment.base_offset)
                break
    uncleanable = max(uncleanable, first_dirty)
    bound = _segment_boundary(log, uncleanable)
    clean_bytes = sum(segment.size for segment in closed if _end_of(log, segment) <= first_dirty)
    cleanable = [segment for segment in dirty if segment.base_offset < bound]
    return Dirtiness(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=bound,
        clean_bytes=clean_bytes,
        cleanable_bytes=sum(segment.size for segment in cleanable),
        overdue_ms=_overdue_ms(cleanable, now_ms - log.config.max_compaction_lag_ms),
        is_checkpoint_invalid=is_invalid,
    )


def plan_cleaning(log: PartitionLog, dirtiness: Dirtiness, *, now_ms: int) -> CleaningPlan:
    """The plan of a cleaning, as immutable values."""
    bound = dirtiness.first_uncleanable_offset
    config = log.config
    return CleaningPlan(
        directory=log.directory,
        first_dirty_offset=dirtiness.first_dirty_offset,
        upper_bound_offset=bound,
        sources=tuple(_source(log, segment) for segment in log.segments if segment.base_offset < bound),
        transaction_index_paths=tuple(segment.path_of(TRANSACTION_INDEX_SUFFIX) for segment in log.segments),
        unwritten_aborted=tuple(entry for segment in log.segments for entry in segment.transaction_index.unwritten),
        last_records={
            entry.producer_id: LastRecord(entry.last_offset, entry.epoch) for entry in log.active_producers()
        },
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
    )


def group_sources(
    sources: Sequence[SegmentSource], *, segment_bytes: int, segment_index_bytes: int
) -> list[list[SegmentSource]]:
    """Groups of adjacent segments that fit into one new segment even uncompacted: by bytes, index bytes and offsets."""
    groups: list[list[SegmentSource]] = []
    size = index_bytes = 0
    for source in sources:
        group = groups[-1] if groups else None
        if (
            group is not None
            and size + source.size <= segment_bytes
            and index_bytes + source.index_bytes <= segment_index_bytes
            and source.end_offset - 1 - group[0].base_offset <= _RELATIVE_OFFSET_MAX
        ):
            group.append(source)
            size += source.size
            index_bytes += source.index_bytes
        else:
            groups.append([source])
            size, index_bytes = source.size, source.index_bytes
    return groups


def _source(log: PartitionLog, segment: Segment) -> SegmentSource:
    return SegmentSource(
        segment=segment,
        path=segment.path,
        base_offset=segment.base_offset,
        end_offset=_end_of(log, segment),
        size=segment.size,
        modified_ms=segment.modified_ms,
        index_bytes=max(
            segment.offset_index.entry_count * _INDEX_ENTRY_BYTES,
            segment.time_index.entry_count * _TIME_INDEX_ENTRY_BYTES,
        ),
    )


def _end_of(log: PartitionLog, segment: Segment) -> int:
    following = log.segments.after(segment)
    return log.log_end_offset if following is None else following.base_offset


def _segment_boundary(log: PartitionLog, offset: int) -> int:
    """The base offset of the first segment with records at or above `offset`, which therefore is not cleaned."""
    for segment in log.segments.from_offset(offset):
        if segment is log.segments.active or segment.base_offset >= offset:
            return segment.base_offset
        if _end_of(log, segment) > offset:
            return segment.base_offset
    return log.segments.active.base_offset


def _overdue_ms(dirty: Sequence[Segment], clean_until_ms: int) -> int:
    timestamps = [segment.first_timestamp for segment in dirty if segment.size]
    oldest = min((timestamp for timestamp in timestamps if timestamp > 0), default=clean_until_ms)
    return max(0, clean_until_ms - oldest)
