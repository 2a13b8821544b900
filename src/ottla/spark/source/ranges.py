"""A task's share of a query, and how a worker reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.model.ids import TopicPartition
from ottla.spark.client import client_of
from ottla.spark.decode import ArrowDecoder
from ottla.spark.options import SourceOptions
from ottla.spark.source.fetch import RangeReader
from ottla.spark.source.limits import Lag, split

__all__ = ["Range", "ranges", "read_range"]

# Spark itself hands ten thousand rows at a time to Python; larger batches cost less for each row, up to the caches.
_ROWS_MAX = 32_768


@dataclass
class Range(InputPartition):
    """Offsets from `start` up to and without `end` of one partition of the topic that had this id."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


def ranges(
    lags: Mapping[TopicPartition, Lag],
    topic_ids: Mapping[str, str],
    at_least: int | None,
    *,
    beginnings: Mapping[TopicPartition, int] | None = None,
) -> list[InputPartition]:
    """A batch as tasks. What lies before `beginnings` is left out only when the batch is cut.

    So a batch that is run again has the same tasks, of which some may be empty by now. A sink notes what it has written
    by the numbers of tasks: if the others moved up, one would be taken for another.
    """
    pieces: list[InputPartition] = []
    for one, lag in split(lags, at_least):
        start = lag.start if beginnings is None else min(max(lag.start, beginnings.get(one, 0)), lag.end)
        pieces.append(Range(one.topic, topic_ids.get(one.topic, ""), one.partition, start, lag.end))
    return pieces


def read_range(options: SourceOptions, piece: Range) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow batches, in the order of their offsets."""
    decoder = ArrowDecoder(
        piece.topic, piece.partition, include_headers=options.include_headers, decoder=options.decoder
    )
    client = client_of(options.client)
    one = TopicPartition(piece.topic, piece.partition)
    reader = RangeReader(client, options, one, piece.topic_id, piece.start, piece.end)
    for batches in reader:
        for batch in batches:
            if batch.header.magic < 2:
                if decoder.rows:
                    yield decoder.finish()
                yield decoder.legacy(batch.header, batch.view, reader.first, piece.end)
                continue
            decoder.add(batch.header, batch.view, reader.first, piece.end)
            if decoder.size >= options.batch_bytes or decoder.rows >= _ROWS_MAX:
                yield decoder.finish()
    if decoder.rows:
        yield decoder.finish()
