"""A batch as a Spark job: executors read offset ranges and write data files, the driver gets their names.

Rows never pass through the JVM: the Python worker that decodes records writes them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.lake.files import DataFileWriter, FileTarget, sent_files
from ottla.spark.options import SourceOptions
from ottla.spark.source.ranges import Range, read_range

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.manifest import DataFile
    from pyspark.sql import SparkSession

__all__ = ["WrittenBatch", "write_records"]

_RESULT = "result binary"


@dataclass(slots=True)
class WrittenBatch:
    files: list[DataFile]
    records: int


def write_records(
    spark: SparkSession, options: SourceOptions, pieces: Sequence[Range], target: FileTarget
) -> WrittenBatch:
    """Writes the records of the ranges as rows, in one Spark task for each range."""
    function = partial(_write_pieces, options, tuple(pieces), target)
    frame = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(function, _RESULT)
    results = [pickle.loads(row.result) for row in frame.collect()]
    files = [file for files, _ in results for file in files]
    return WrittenBatch(sent_files(files, target.metadata), sum(records for _, records in results))


def _write_pieces(
    options: SourceOptions, pieces: Sequence[Range], target: FileTarget, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    from ottla.lake.columns import raw_rows

    for batch in batches:
        for number in batch.column(0).to_pylist():
            writer = DataFileWriter(target)
            records = 0
            for rows in read_range(options, pieces[number]):
                records += rows.num_rows
                writer.add(raw_rows(rows))
            writer.flush()
            result = pickle.dumps((writer.files, records))
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([result], pyarrow.binary())], names=["result"])
