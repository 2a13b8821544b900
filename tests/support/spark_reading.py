"""The readers of `format("ottla")` as Spark calls them, for tests without Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ottla.spark.options import source_options
from ottla.spark.source.batch import OttlaBatchReader
from ottla.spark.source.stream import OttlaStreamReader
from tests.support.spark_topics import Topics

__all__ = ["Stream", "batch_reader", "everything", "rows", "stream_reader", "values"]


def batch_reader(topics: Topics, **options: str) -> OttlaBatchReader:
    return OttlaBatchReader(source_options({"bootstrap.servers": topics.bootstrap, **options}, streaming=False))


def stream_reader(topics: Topics, **options: str) -> OttlaStreamReader:
    settings = {"kafka.bootstrap.servers": topics.bootstrap, "startingOffsets": "earliest", **options}
    return OttlaStreamReader(source_options(settings, streaming=True))


def rows(reader: OttlaBatchReader | OttlaStreamReader, partitions: Any) -> list[dict[str, Any]]:
    read_rows: list[dict[str, Any]] = []
    for partition in partitions:
        for batch in reader.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            batch.validate(full=True)
            read_rows += batch.to_pylist()
    return read_rows


def values(read_rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in read_rows]


def everything(reader: OttlaBatchReader) -> list[bytes]:
    return values(rows(reader, reader.partitions()))


class Stream:
    """Calls a reader as Spark does: batch by batch, every batch from the end of the previous batch."""

    def __init__(self, topics: Topics, **options: str) -> None:
        self._topics = topics
        self._options = options
        self.reader = stream_reader(topics, **options)
        self.offset = self.reader.initialOffset()

    def restart(self, **options: str) -> None:
        self.reader.stop()
        self.reader = stream_reader(self._topics, **{**self._options, **options})

    def batch(self) -> list[bytes] | None:
        """The values of the next batch, or None if there is no new data."""
        # Spark writes offsets as text, and compares the texts.
        start = json.loads(json.dumps(self.offset))
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if json.dumps(end) == json.dumps(self.offset):
            return None
        batch_values = values(rows(self.reader, self.reader.partitions(start, end)))
        self.reader.commit(end)
        self.offset = end
        return batch_values
