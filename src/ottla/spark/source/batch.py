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
        lags = planner.patiently(lambda: self._between(planner, topics))
        return ranges(lags, dict(topics.ids), self._options.min_partitions)

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
                what = f"{partition}: offsets {start} to {earliest[partition] - 1} are not there any more."
                on_loss(options, what)
                start = earliest[partition]
            if end > start:
                lags[partition] = Lag(start, end)
        return lags

    @in_one_sentence
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes an empty partition if there is none.
        if not isinstance(partition, Range):
            return iter(())
        return read_range(self._options, partition)
