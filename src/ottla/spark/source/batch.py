"""`spark.read.format("ottla")`: the records of topics between two points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.model.ids import TopicPartition
from ottla.spark.failures import in_one_sentence
from ottla.spark.options import SourceOptions
from ottla.spark.source.limits import Lag
from ottla.spark.source.loss import on_loss
from ottla.spark.source.planner import Planner, Topics
from ottla.spark.source.ranges import Range, ranges, read_range

__all__ = ["OttlaBatchReader"]


class OttlaBatchReader(DataSourceReader):
    """Looks the two points up once, when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    @in_one_sentence
    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        topics = planner.existing_topics()
        if self._options.history is not None:
            return self._joined(planner, topics)
        lags = planner.patiently(lambda: self._between(planner, topics))
        return ranges(lags, dict(topics.ids), self._options.min_partitions)

    def _joined(self, planner: Planner, topics: Topics) -> Sequence[InputPartition]:
        """The past from the table of the topic, and the rest from the topic."""
        from ottla.spark.source.history import History, joined_ranges, table_pieces

        options = self._options
        history = History.open(options, topics)
        joined = planner.patiently(lambda: joined_ranges(options, planner, topics, history))
        recent = ranges(joined.in_topic, dict(topics.ids), options.min_partitions)
        return [*table_pieces(history, joined.in_table), *recent]

    def _between(self, planner: Planner, topics: Topics) -> dict[TopicPartition, Lag]:
        options = self._options
        starts = planner.resolve(options.starting, topics.partitions)
        ends = planner.resolve(options.ending, topics.partitions)
        earliest = planner.earliest(topics.partitions)
        latest = planner.latest(topics.partitions)
        lags: dict[TopicPartition, Lag] = {}
        for partition in topics.partitions:
            start, end = starts[partition], min(ends[partition], latest[partition])
            if start < earliest[partition]:
                description = f"{partition}: offsets {start} to {earliest[partition] - 1} are not there any more."
                on_loss(options, description)
                start = earliest[partition]
            if end > start:
                lags[partition] = Lag(start, end)
        return lags

    @in_one_sentence
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._options.history is not None:
            from ottla.spark.source.history import TablePiece, read_table_piece

            if isinstance(partition, TablePiece):
                return read_table_piece(self._options, partition)
        # Spark makes an empty partition if there is none.
        if not isinstance(partition, Range):
            return iter(())
        return read_range(self._options, partition)
