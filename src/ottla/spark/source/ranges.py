"""The offset range of a task, and its reading in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.client.columns.decode import ArrowDecoder
from ottla.model.ids import TopicPartition
from ottla.spark.client import client_of
from ottla.spark.options import SourceOptions
from ottla.spark.source.fetch import FetchedBatch, RangeReader
from ottla.spark.source.limits import Lag, split

__all__ = ["Range", "decoded", "ranges", "read_range", "reader_of"]

# Larger Arrow batches cost less per row, up to the size of the CPU caches. Spark's default is ten thousand rows.
_ROWS_MAX = 32_768


@dataclass
class Range(InputPartition):
    """The offsets from `start` up to but not including `end` of a partition, for a topic id."""

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
    """The tasks of a batch. Offsets before `beginnings` are left out after the split.

    A repeated batch therefore has the same tasks, some of which may be empty by now. Sinks store markers by task
    number, so the numbers must not change.
    """
    pieces: list[InputPartition] = []
    for partition, lag in split(lags, at_least):
        start = lag.start if beginnings is None else min(max(lag.start, beginnings.get(partition, 0)), lag.end)
        pieces.append(Range(partition.topic, topic_ids.get(partition.topic, ""), partition.partition, start, lag.end))
    return pieces


def read_range(options: SourceOptions, piece: Range) -> Iterator[pa.RecordBatch]:
    """The records of a range as Arrow batches, in the order of their offsets."""
    reader = reader_of(options, piece)
    yield from decoded(options, piece, reader, reader)


def reader_of(options: SourceOptions, piece: Range) -> RangeReader:
    partition = TopicPartition(piece.topic, piece.partition)
    return RangeReader(client_of(options.client), options, partition, piece.topic_id, piece.start, piece.end)


def decoded(
    options: SourceOptions, piece: Range, reader: RangeReader, responses: Iterable[list[FetchedBatch]]
) -> Iterator[pa.RecordBatch]:
    """The records of responses to a reader."""
    decoder = ArrowDecoder(
        piece.topic, piece.partition, include_headers=options.include_headers, decoder=options.decoder
    )
    for batches in responses:
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
