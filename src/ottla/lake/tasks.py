"""A batch as a Spark job: executors read offset ranges and write data files, the driver gets their descriptions.

Rows never pass through the JVM: the Python worker that decodes records writes them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.lake.files import DataFileWriter, RowTarget
from ottla.lake.shapes import RowShape
from ottla.spark.options import SourceOptions
from ottla.spark.source.ranges import Range, read_range

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

__all__ = [
    "RESULT",
    "DeadLetterWriter",
    "DeadLetters",
    "LandingJob",
    "TaskResult",
    "WrittenBatch",
    "gathered",
    "result_batch",
    "write_records",
]

RESULT = "result binary"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The table of dead letters, and the dead letters of a repeated batch that it has already: these are skipped."""

    target: RowTarget
    known: Mapping[int, frozenset[int]]
    """Offsets by partition."""


@dataclass(frozen=True, slots=True)
class LandingJob:
    """The input that all tasks of a batch share."""

    options: SourceOptions
    work: tuple[tuple[Range, ...], ...]
    """The ranges of each task."""
    shape: RowShape
    target: RowTarget
    dead: DeadLetters | None = None

    def read(self, task: int) -> Iterator[pyarrow.RecordBatch]:
        """The records of a task."""
        for piece in self.work[task]:
            yield from read_range(self.options, piece)


@dataclass(slots=True)
class TaskResult:
    """The files that a task has written. They are not part of the table yet."""

    added: list[Any] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Paths of files that the added ones replace."""
    dead: list[Any] = field(default_factory=list)
    records: int = 0


@dataclass(slots=True)
class WrittenBatch(TaskResult):
    """The results of all tasks."""


def write_records(spark: SparkSession, job: LandingJob) -> WrittenBatch:
    """Writes the records of the ranges as rows."""
    count = len(job.work)
    frame = spark.range(0, count, 1, count).mapInArrow(partial(_write_pieces, job), RESULT)
    return gathered(frame.collect(), job)


def gathered(rows: Sequence[Any], job: LandingJob) -> WrittenBatch:
    whole = WrittenBatch()
    for row in rows:
        part: TaskResult = pickle.loads(row.result)
        whole.added += job.target.received(part.added)
        whole.removed += part.removed
        if job.dead is not None:
            whole.dead += job.dead.target.received(part.dead)
        whole.records += part.records
    return whole


def result_batch(result: TaskResult) -> pyarrow.RecordBatch:
    import pyarrow

    content = pyarrow.array([pickle.dumps(result)], pyarrow.binary())
    return pyarrow.RecordBatch.from_arrays([content], names=["result"])


def _write_pieces(job: LandingJob, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows, dead = DataFileWriter(job.target), DeadLetterWriter(job.dead)
            result = TaskResult()
            for records in job.read(number):
                result.records += records.num_rows
                good, bad = job.shape.split(records)
                rows.add(good)
                dead.add(bad)
            result.added, result.dead = rows.finish(), dead.finish()
            yield result_batch(result)


class DeadLetterWriter:
    def __init__(self, letters: DeadLetters | None) -> None:
        self._letters = letters
        self._writer = None if letters is None else DataFileWriter(letters.target)

    def add(self, rows: pyarrow.RecordBatch | None) -> None:
        if rows is None:
            return
        assert self._letters is not None
        assert self._writer is not None
        known = self._letters.known
        if known:
            import pyarrow

            # A batch that is repeated after its dead letters were committed produces them again.
            pairs = zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
            rows = rows.filter(pyarrow.array(offset not in known.get(number, ()) for number, offset in pairs))
        self._writer.add(rows)

    def finish(self) -> list[Any]:
        return [] if self._writer is None else self._writer.finish()
