"""The past of a topic in its table (`ottla lake`), joined with the topic without a seam.

A raw table has all records below its position, which is a part of its snapshot. So the records below the position are
read from that snapshot and all later records from the topic: no record is missing or repeated, whatever retention
deletes and the pipeline of the table adds meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.client.columns.schema import arrow_schema
from ottla.model.ids import TopicPartition
from ottla.spark.options import EARLIEST, LATEST, OptionError, Point, SourceOptions
from ottla.spark.source.limits import Lag
from ottla.spark.source.loss import on_loss
from ottla.spark.source.planner import Planner, Topics
from ottla.spark.source.ranges import Range, read_range
from ottla.spark.tables import MODE, LakeError, Position, TableFiles, newest_position, open_catalog

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

__all__ = [
    "RECORD_COLUMNS",
    "History",
    "JoinedRanges",
    "TablePiece",
    "joined_ranges",
    "read_in_order",
    "read_piece_in_order",
    "read_table_piece",
    "table_pieces",
    "whole_piece",
]

_PIECE_BYTES = 64 * 1024 * 1024
# The offsets that an ordered reader sorts in memory at once.
_WINDOW = 200_000
RECORD_COLUMNS = ("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""The columns of a raw table."""


@dataclass(frozen=True, slots=True)
class History:
    """One snapshot of the table of a topic."""

    table: Table
    position: Position
    snapshot_id: int | None
    _every_file: list[FileScanTask] = field(default_factory=list, compare=False)

    @classmethod
    def open(cls, options: SourceOptions, topics: Topics) -> History:
        """Raises OptionError if the table is not the raw table of the topic."""
        assert options.history is not None
        names = {partition.topic for partition in topics.partitions}
        table = open_catalog(dict(options.history.catalog)).load_table(options.history.table)
        if table.properties.get(MODE, "raw") != "raw":
            raise OptionError(f"history={options.history.table} is not a raw table: it does not have all records.")
        try:
            position = newest_position(table)
        except LakeError as error:
            raise OptionError(str(error)) from error
        topic = table.properties.get("ottla.topic", "")
        if names != {topic}:
            raise OptionError(f"history={options.history.table} is the table of {topic}, not of {', '.join(names)}.")
        position = position or Position(topic)
        if position.topic_id and topics.ids[topic] and position.topic_id != topics.ids[topic]:
            raise OptionError(f"{topic} was deleted and made again: its table has the records of the old topic.")
        snapshot = table.current_snapshot()
        return cls(table, position, None if snapshot is None else snapshot.snapshot_id)

    def first_since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset from the timestamp on, for partitions with such a record in the table."""
        from pyiceberg.expressions import GreaterThanOrEqual

        if self.snapshot_id is None or not times_ms:
            return {}
        least = pa.scalar(min(times_ms.values()) * 1000, pa.timestamp("us", tz="UTC")).as_py().isoformat()
        rows = self.table.scan(
            row_filter=GreaterThanOrEqual("timestamp", least),
            selected_fields=("partition", "offset", "timestamp"),
            snapshot_id=self.snapshot_id,
        ).to_arrow()
        firsts: dict[TopicPartition, int] = {}
        for partition, time_ms in times_ms.items():
            late = pa.compute.and_(
                pa.compute.equal(rows["partition"], partition.partition),
                pa.compute.greater_equal(rows["timestamp"], pa.scalar(time_ms * 1000, rows["timestamp"].type)),
            )
            first = pa.compute.min(rows["offset"].filter(late)).as_py()
            if first is not None:
                firsts[partition] = first
        return firsts

    def files(self, lags: Mapping[TopicPartition, Lag]) -> list[FileScanTask]:
        if self.snapshot_id is None or not lags:
            return []
        return list(self.table.scan(row_filter=_filter(_numbers(lags)), snapshot_id=self.snapshot_id).plan_files())

    def files_of_range(self, lags: Mapping[TopicPartition, Lag]) -> list[FileScanTask]:
        """The result of `files`, for callers with many ranges: the manifests of the table are read once."""
        from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator

        if self.snapshot_id is None or not lags:
            return []
        if not self._every_file:
            self._every_file.extend(self.table.scan(snapshot_id=self.snapshot_id).plan_files())
        has_rows = _InclusiveMetricsEvaluator(self.table.schema(), _filter(_numbers(lags))).eval
        return [task for task in self._every_file if has_rows(task.file)]


@dataclass(frozen=True, slots=True)
class JoinedRanges:
    in_table: dict[TopicPartition, Lag]
    in_topic: dict[TopicPartition, Lag]


@dataclass
class TablePiece(InputPartition):
    """Some files of the table, and the offsets that are wanted of each partition."""

    topic: str
    files: TableFiles
    tasks: list[FileScanTask]
    ranges: dict[int, tuple[int, int]]


def joined_ranges(options: SourceOptions, planner: Planner, topics: Topics, history: History) -> JoinedRanges:
    """The offsets between the two points of the options: those below the table's position are in the table."""
    latest = planner.latest(topics.partitions)
    begins = _resolved(options.starting, options, planner, topics, history, earliest=0)
    ends = _resolved(options.ending, options, planner, topics, history, earliest=0)
    in_table: dict[TopicPartition, Lag] = {}
    in_topic: dict[TopicPartition, Lag] = {}
    for partition in topics.partitions:
        seam = history.position.offsets.get(partition.partition, 0)
        begin, end = begins[partition], min(ends[partition], max(latest[partition], seam))
        if begin < min(seam, end):
            in_table[partition] = Lag(begin, min(seam, end))
        if max(begin, seam) < end:
            in_topic[partition] = Lag(max(begin, seam), end)
    for partition, first in planner.earliest(in_topic).items():
        lag = in_topic[partition]
        if first > lag.start:
            # A table that is behind; a new table may begin after the first record.
            on_loss(options, f"{partition}: offsets {lag.start} to {first - 1} are neither in the table nor the topic.")
            in_topic[partition] = Lag(min(first, lag.end), lag.end)
    return JoinedRanges(in_table, {partition: lag for partition, lag in in_topic.items() if lag.size})


def _resolved(
    point: Point, options: SourceOptions, planner: Planner, topics: Topics, history: History, *, earliest: int
) -> dict[TopicPartition, int]:
    """The offsets of a point. A time that the table has is looked up there, because the topic may have lost it."""
    times: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, int] = {}
    for partition in topics.partitions:
        time_ms = point.times_ms.get(partition, point.time_ms)
        number = point.offsets.get(partition, point.everywhere)
        if time_ms is not None:
            times[partition] = time_ms
        elif number == EARLIEST:
            offsets[partition] = earliest
        elif number is not None and number >= 0:
            offsets[partition] = number
    offsets |= history.first_since(times)
    rest = [partition for partition in topics.partitions if partition not in offsets]
    if rest:
        late = {partition: time_ms for partition, time_ms in times.items() if partition in rest}
        everywhere = LATEST if point is options.ending or point.everywhere is None else point.everywhere
        unresolved = Point(everywhere=everywhere, times_ms=late)
        offsets |= planner.resolve(unresolved, rest, is_end=point is options.ending)
    return offsets


def table_pieces(history: History, lags: Mapping[TopicPartition, Lag]) -> list[InputPartition]:
    """Tasks that read the table, each with files of about the same size."""
    pieces: list[InputPartition] = []
    group: list[FileScanTask] = []
    size = 0
    for task in [*history.files(lags), None]:
        if group and (task is None or size + task.file.file_size_in_bytes > _PIECE_BYTES):
            pieces.append(TablePiece(history.position.topic, TableFiles.of(history.table), group, _numbers(lags)))
            group, size = [], 0
        if task is not None:
            group.append(task)
            size += task.file.file_size_in_bytes
    return pieces


def read_table_piece(options: SourceOptions, piece: TablePiece) -> Iterator[pa.RecordBatch]:
    """The records of the files as the source gives those of a topic."""
    for task in piece.tasks:
        rows = piece.files.read(task, RECORD_COLUMNS, row_filter=_filter(piece.ranges))
        yield from _as_records(rows, piece.topic, options)


def read_in_order(options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """All records between the points of the options, partition by partition in the order of their offsets.

    No Spark session is needed: for programs that read the past of a topic by offset or time.
    """
    planner = Planner(options)
    topics = planner.existing_topics()
    history = History.open(options, topics)
    joined = planner.patiently(lambda: joined_ranges(options, planner, topics, history))
    for partition in sorted(topics.partitions):
        lag = joined.in_table.get(partition, Lag(0, 0))
        for start in range(lag.start, lag.end, _WINDOW):
            yield from read_piece_in_order(
                whole_piece(history, partition, start, min(start + _WINDOW, lag.end)), options
            )
        rest = joined.in_topic.get(partition)
        if rest is not None:
            yield from read_range(
                options, Range(partition.topic, topics.ids[partition.topic], partition.partition, rest.start, rest.end)
            )


def whole_piece(history: History, partition: TopicPartition, start: int, end: int) -> TablePiece:
    """All files of the table that have records of a range of a partition."""
    lags = {partition: Lag(start, end)}
    return TablePiece(partition.topic, TableFiles.of(history.table), history.files_of_range(lags), _numbers(lags))


def read_piece_in_order(piece: TablePiece, options: SourceOptions | None = None) -> Iterator[pa.RecordBatch]:
    """The records of one partition in the order of their offsets, sorted in memory."""
    if piece.tasks:
        wanted = _filter(piece.ranges)
        rows = pa.concat_tables(piece.files.read(task, RECORD_COLUMNS, row_filter=wanted) for task in piece.tasks)
        yield from _as_records(rows.sort_by("offset"), piece.topic, options)


def _as_records(rows: pa.Table, topic: str, options: SourceOptions | None) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(options is None or options.include_headers)
    if not rows.num_rows:
        return
    columns = {**{name: rows[name] for name in rows.column_names}, "timestampType": rows["timestamp_type"]}
    columns["topic"] = pa.chunked_array([pa.repeat(pa.scalar(topic), rows.num_rows)])
    table = pa.table([columns[field.name].cast(field.type) for field in schema], schema=schema)
    yield from table.combine_chunks().to_batches()


def _numbers(lags: Mapping[TopicPartition, Lag]) -> dict[int, tuple[int, int]]:
    return {partition.partition: (lag.start, lag.end) for partition, lag in lags.items()}


def _filter(ranges: Mapping[int, tuple[int, int]]) -> Any:
    from pyiceberg.expressions import AlwaysFalse, And, EqualTo, GreaterThanOrEqual, LessThan, Or

    parts: Sequence[Any] = [
        And(EqualTo("partition", number), And(GreaterThanOrEqual("offset", start), LessThan("offset", end)))
        for number, (start, end) in sorted(ranges.items())
    ]
    # `Or` takes at least two arguments, and AlwaysFalse is neutral. Of more than two arguments `Or` makes a balanced
    # tree: the library visits trees recursively, and a topic may have thousands of partitions.
    return Or(AlwaysFalse(), AlwaysFalse(), *parts)
