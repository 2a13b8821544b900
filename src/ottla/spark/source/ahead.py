"""Records of small batches, which the process that plans a stream reads itself.

A task that reads needs a Python worker: five milliseconds and a tenth of the CPU time of a small micro-batch.
Spark can take the records of a batch together with its tasks, and keeps them in its block manager; it does so for
readers of its own class only. In the process that plans a stream, `takes_records` gives Spark's function a reader that
looks like a reader of that class.

The records are requested as soon as the end of the batch is known and are there when Spark asks for the tasks, after
its write-ahead log. A batch has records ahead only if it has one task, because Spark makes one task of them: a repeated
batch must have the same tasks, with or without records ahead. If the block is lost the task reads as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.spark.options import SourceOptions
from ottla.spark.source.fetch import RangeReader
from ottla.spark.source.ranges import Range, decoded, reader_of

__all__ = ["Ahead", "takes_records"]

_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
_FUNCTION = "partitions_func"

# Larger batches are read by their task: Spark copies records ahead row by row, in the driver.
_OFFSETS_MAX = 200
_BYTES_MAX = 64 * 1024
# Large records do not fit: this many batches are not requested ahead after a response that could not be used.
_PAUSE_BATCHES = 50


class Ahead:
    """The records of the next batch, if it is small."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._requested: tuple[Range, RangeReader] | None = None
        self._pause = 0

    def request(self, pieces: Sequence[InputPartition]) -> None:
        """Sends a request for the records of a batch and does not wait."""
        self._requested = None
        if self._pause:
            self._pause -= 1
            return
        if len(pieces) != 1 or not isinstance(pieces[0], Range):
            return
        piece = pieces[0]
        if 0 < piece.end - piece.start <= _OFFSETS_MAX:
            reader = reader_of(self._options, piece)
            reader.post(_BYTES_MAX)
            self._requested = piece, reader

    def forget(self) -> None:
        """Drops the request: Spark runs another batch."""
        self._requested = None

    def take(self) -> Iterator[pa.RecordBatch] | None:
        """The requested records; None if the task has to read them."""
        if self._requested is None:
            return None
        piece, reader = self._requested
        self._requested = None
        batches = reader.posted(_BYTES_MAX)
        if batches is None:
            self._pause = _PAUSE_BATCHES
            return None
        return iter(list(decoded(self._options, piece, reader, [batches])))


def takes_records() -> bool:
    """True in the process that plans a stream, where Spark's function is prepared on the first call."""
    runner = sys.modules["__main__"]
    name = getattr(getattr(runner, "__spec__", None), "name", None)
    original = getattr(runner, _FUNCTION, None)
    if name != _RUNNER or original is None:
        return False
    if not hasattr(original, "takes_records"):
        setattr(runner, _FUNCTION, _with_records(original))
    return True


def _with_records(original: Any) -> Any:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

    class Carrier(_SimpleStreamReaderWrapper):
        def __init__(self, reader: Any) -> None:
            # Without the constructor of Spark's class, which makes a cache of its own.
            self._reader = reader

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            pieces: Sequence[InputPartition] = self._reader.partitions(start, end)
            return pieces

        def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Any:  # noqa: ARG002, N802
            return self._reader.records_ahead()

    def partitions_func(reader: Any, *arguments: Any) -> Any:
        return original(Carrier(reader) if hasattr(reader, "records_ahead") else reader, *arguments)

    partitions_func.takes_records = True  # type: ignore[attr-defined]
    return partitions_func
