"""The next batch of a table: offset ranges of the topic, from the table's position on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ottla.lake.errors import LakeError
from ottla.model.ids import TopicPartition
from ottla.spark.options import EARLIEST, Point, SourceOptions
from ottla.spark.source.limits import Lag, limit_offsets
from ottla.spark.source.planner import Planner, Topics
from ottla.spark.source.ranges import Range, ranges
from ottla.spark.tables import Position

if TYPE_CHECKING:
    from ottla.lake.settings import TableSettings

__all__ = ["PlannedBatch", "offsets_of_topic", "plan_batch", "start_of_new_table"]

# The number of records that justifies another task.
_TASK_RECORDS = 20_000


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    work: tuple[tuple[Range, ...], ...]
    """The ranges of each task."""
    after: Position
    lag: int
    """The number of offsets that follow this batch in the topic."""


def plan_batch(
    options: SourceOptions, settings: TableSettings, position: Position | None, *, tasks: int
) -> PlannedBatch | None:
    """The batch after the position; None if there is no new record. Raises LakeError and DataLost."""
    planner = Planner(options)
    topics = planner.existing_topics()
    topic_id = topics.ids[settings.topic]
    if position is not None and _is_of_earlier_topic(position, topic_id):
        raise LakeError(
            f"Topic {settings.topic} was deleted and made again, and table {'.'.join(settings.identifier)} has the "
            "records of the old one. Set another table name, or drop the table."
        )
    return planner.patiently(lambda: _between(planner, settings, topics, position, tasks))


def start_of_new_table(options: SourceOptions, topic: str, known: Position | None) -> Position:
    """The start of a new table: the end of the topic when it is looked for first. `known` is the former result.

    All records of a topic that was deleted and made again since then are later than the start. Raises KafkaError if the
    topic does not exist.
    """
    planner = Planner(options)
    topics = planner.existing_topics()
    topic_id = topics.ids[topic]
    if known is not None and not _is_of_earlier_topic(known, topic_id):
        return known
    find = planner.latest if known is None else planner.earliest
    offsets = planner.patiently(lambda: find(topics.partitions))
    return Position(topic, topic_id, {partition.partition: offset for partition, offset in offsets.items()})


def offsets_of_topic(position: Position | None, topic_id: str) -> Mapping[int, int]:
    """The offsets of the position; empty if the position is of an earlier topic of the same name."""
    return {} if position is None or _is_of_earlier_topic(position, topic_id) else position.offsets


def _is_of_earlier_topic(position: Position, topic_id: str) -> bool:
    # Old brokers give topics no ids.
    return bool(position.topic_id and topic_id) and position.topic_id != topic_id


def _between(
    planner: Planner, settings: TableSettings, topics: Topics, position: Position | None, tasks: int
) -> PlannedBatch | None:
    known = {} if position is None else dict(position.offsets)
    new = [partition for partition in topics.partitions if partition.partition not in known]
    begins = {partition: known[partition.partition] for partition in topics.partitions if partition not in set(new)}
    begins |= planner.resolve(Point(everywhere=EARLIEST), new)
    ends = planner.latest(topics.partitions)
    _check_ends(planner, settings, begins, ends)
    lags = {partition: Lag(begins[partition], end) for partition, end in ends.items() if end > begins[partition]}
    if not lags:
        return None
    total = sum(lag.size for lag in lags.values())
    until = limit_offsets(lags, settings.batch_records_max)
    # A task writes a file: few records make one file, and not one for each partition of the topic.
    tasks = max(1, min(tasks, sum(until[partition] - lag.start for partition, lag in lags.items()) // _TASK_RECORDS))
    limited = {partition: Lag(lag.start, until[partition]) for partition, lag in lags.items()}
    pieces = ranges(limited, topics.ids, tasks, beginnings=_beginnings(planner, settings, limited))
    after = {partition.partition: until.get(partition, begin) for partition, begin in begins.items()}
    return PlannedBatch(
        _shared(cast("Sequence[Range]", pieces), tasks),
        Position(settings.topic, topics.ids[settings.topic], {**known, **after}),
        total - sum(lag.size for lag in limited.values()),
    )


def _shared(pieces: Sequence[Range], tasks: int) -> tuple[tuple[Range, ...], ...]:
    """The ranges in at most `tasks` shares of about the same size, each share in the order of the topic."""
    shares: list[list[Range]] = [[] for _ in range(min(tasks, len(pieces)))]
    sizes = [0] * len(shares)
    for piece in sorted(pieces, key=lambda piece: piece.start - piece.end):
        least = sizes.index(min(sizes))
        shares[least].append(piece)
        sizes[least] += piece.end - piece.start
    return tuple(tuple(sorted(share, key=lambda piece: (piece.partition, piece.start))) for share in shares)


def _beginnings(
    planner: Planner, settings: TableSettings, lags: dict[TopicPartition, Lag]
) -> dict[TopicPartition, int]:
    """The starts of the logs, after a check that nothing was deleted before it was read."""
    earliest = planner.earliest(lags)
    for partition, first in earliest.items():
        if first > lags[partition].start and settings.on_data_loss == "fail":
            raise LakeError(
                f"{partition}: offsets {lags[partition].start} to {first - 1} were deleted before they were read. "
                "Set on.data.loss = earliest to continue with the remaining records."
            )
    return earliest


def _check_ends(
    planner: Planner,
    settings: TableSettings,
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> None:
    """A log that ends before the position has lost records (unclean election), but the table still has their rows."""
    behind = {partition: begins[partition] for partition, end in ends.items() if end < begins[partition]}
    for partition, end in planner.cut_off(behind).items() if behind else ():
        raise LakeError(
            f"{partition}: the log ends at offset {end}, and table {'.'.join(settings.identifier)} has records up to "
            f"{begins[partition]}. The topic has lost records that the table has."
        )
