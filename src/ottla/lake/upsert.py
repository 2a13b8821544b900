"""A batch of a table with a row for each key, as a Spark job.

Rows are shuffled by the bucket of their key, which is the partition of the table. A task merges its buckets: the last
record of a key wins, a record without a value deletes the row. Files that have one of the keys are written again
without it (copy-on-write), other files stay. Every reader of the format understands the result.

Between the two stages rows are Arrow streams in a binary column, so that the JVM moves them without reading them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.buckets import key_buckets
from ottla.lake.columns import dead_letter_rows
from ottla.lake.files import DataFileWriter, RowTarget
from ottla.lake.shapes import RowShape
from ottla.lake.tasks import RESULT, DeadLetterWriter, LandingJob, TaskResult, WrittenBatch, gathered, result_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["upsert_records"]

Existing = Mapping[int, Sequence[Any]]
"""The files of each bucket."""

_SHUFFLED = "bucket int, deleted boolean, rows binary"
_SHUFFLED_ARROW = pa.schema([("bucket", pa.int32()), ("deleted", pa.bool_()), ("rows", pa.binary())])
# In place of a bucket: the row has the files of dead letters.
_DEAD = -1
_NO_KEY = "The record has no key, and the table has a row for each key."


def upsert_records(spark: SparkSession, job: LandingJob, *, buckets: int, existing: Existing) -> WrittenBatch:
    count = len(job.work)
    tasks = min(buckets, spark.sparkContext.defaultParallelism)
    shuffled = spark.range(0, count, 1, count).mapInArrow(partial(_read_pieces, job, buckets), _SHUFFLED)
    merged = shuffled.repartition(tasks, "bucket").mapInArrow(partial(_merge, job, existing), RESULT)
    return gathered(merged.collect(), job)


# The first stage.


def _read_pieces(job: LandingJob, buckets: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    dead = DeadLetterWriter(job.dead)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for records in job.read(number):
                has_key = pc.is_valid(records.column("key"))
                if not pc.all(has_key).as_py():
                    keyless = records.filter(pc.invert(has_key))
                    dead.add(dead_letter_rows(keyless, [_NO_KEY] * keyless.num_rows))
                    records = records.filter(has_key)
                has_value = pc.is_valid(records.column("value"))
                rows, bad = job.shape.split(records.filter(has_value))
                dead.add(bad)
                yield from _sent(rows, job.shape.key, buckets, deleted=False)
                tombstones, _ = job.shape.split(records.filter(pc.invert(has_value)))
                yield from _sent(tombstones, job.shape.key, buckets, deleted=True)
    files = dead.finish()
    if files:
        yield _shuffled([(_DEAD, False, pickle.dumps(files))])


def _sent(rows: pa.RecordBatch, key: str, buckets: int, *, deleted: bool) -> Iterator[pa.RecordBatch]:
    if not rows.num_rows:
        return
    row_buckets = key_buckets(rows.column(key), buckets)
    yield _shuffled(
        [
            (number, deleted, _packed(rows.filter(pc.equal(row_buckets, number))))
            for number in pc.unique(row_buckets).to_pylist()
        ]
    )


def _shuffled(rows: list[tuple[int, bool, bytes]]) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SHUFFLED_ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SHUFFLED_ARROW)


def _packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


# The second stage.


def _merge(job: LandingJob, existing: Existing, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    result = TaskResult()
    by_bucket: dict[int, list[pa.Table]] = {}
    for batch in batches:
        for bucket, deleted, content in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if bucket == _DEAD:
                result.dead += pickle.loads(content)
                continue
            rows = pa.ipc.open_stream(content).read_all()
            flags = pa.repeat(pa.scalar(deleted), rows.num_rows)
            by_bucket.setdefault(bucket, []).append(rows.append_column("__deleted", flags))
            result.records += rows.num_rows
    for bucket, parts in sorted(by_bucket.items()):
        writer = DataFileWriter(job.target)
        last = _last_of_each_key(pa.concat_tables(parts), job.shape)
        keys = last.column(job.shape.key).combine_chunks()
        for file in existing.get(bucket, ()):
            remaining = _without_keys(job.target, file, job.shape.key, keys)
            if remaining is not None:
                result.removed.append(job.target.path_of(file))
                _add(writer, remaining)
        kept = last.filter(pc.invert(last.column("__deleted"))).drop_columns(["__deleted"])
        # Cast to the types of the rows that were read from files.
        _add(writer, kept.cast(job.target.arrow_schema()))
        result.added += writer.finish()
    yield result_batch(result)


def _last_of_each_key(rows: pa.Table, shape: RowShape) -> pa.Table:
    rows = rows.sort_by([(name, "ascending") for name in shape.order])
    numbered = rows.select([shape.key]).append_column("__number", pa.array(range(rows.num_rows)))
    last = numbered.group_by(shape.key).aggregate([("__number", "max")]).column("__number_max")
    return rows.take(last)


def _without_keys(target: RowTarget, file: Any, key: str, keys: pa.Array) -> pa.Table | None:
    """The rows of a file without those that have one of the keys; None if no row has one of the keys."""
    file_keys = target.read(file, columns=[key]).column(key)
    hits = pc.is_in(file_keys, value_set=keys)
    if not pc.any(hits).as_py():
        return None
    return target.read(file).filter(pc.invert(hits))


def _add(writer: DataFileWriter, rows: pa.Table) -> None:
    for batch in rows.to_batches():
        writer.add(batch)
