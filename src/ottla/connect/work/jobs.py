"""A batch as Spark jobs: the functions that run in executors, and the frames around them.

A batch begins with `spark.range`, one number for each piece of work, and `mapInArrow`: the function looks the piece up
by its number. Such a plan starts no process for a query, so many small batches of many tasks cost little.

Executors import these functions by name; only values travel to them.
"""

from __future__ import annotations

import base64
import importlib
import pickle
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.settings import ClientSettings
from ottla.connect.api import (
    ConnectError,
    Connector,
    OffsetRange,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    Task,
)
from ottla.connect.work.outgoing import outgoing_columns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = [
    "UP_TO_THREE",
    "ConnectorReference",
    "CreationRule",
    "LostAttemptError",
    "SourcePiece",
    "WriteTarget",
    "Written",
    "carry",
    "read_source",
    "read_topics",
    "straight",
    "write",
    "writing",
]

_WRITTEN = "topics string, records bigint, bytes bigint"
# Instead of a number of records: the write failed, and the first column has the error.
_FAILED = -1
# Instead of a number of records: an earlier attempt of the Spark task was lost, for an unknown reason.
_LOST = -2
_ROWS_MAX = 65_536
_LOAD = "ottla.connect.load"


@dataclass(frozen=True, slots=True)
class ConnectorReference:
    """A connector's class by name, for executors."""

    module: str
    name: str
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, connector: type[Connector], paths: Sequence[str]) -> ConnectorReference:
        return cls(connector.__module__, connector.__qualname__, tuple(paths))

    def load(self) -> type[Connector]:
        for path in self.paths:
            if path not in sys.path:
                sys.path.append(path)
        target: Any = importlib.import_module(self.module)
        for step in self.name.split("."):
            target = getattr(target, step)
        assert isinstance(target, type)
        assert issubclass(target, Connector)
        return target


@dataclass(frozen=True, slots=True)
class SourcePiece:
    """A range of a source partition."""

    partition: SourcePartition
    start: SourceOffset | None
    end: SourceOffset


# A replication factor: three, or the number of brokers if there are fewer.
UP_TO_THREE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationRule:
    """Settings of new topics whose names match (KIP-158)."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str]

    def fits(self, topic: str) -> bool:
        return any(re.fullmatch(pattern, topic) for pattern in self.include) and not any(
            re.fullmatch(pattern, topic) for pattern in self.exclude
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The cluster and the transaction for rows; without a transaction rows are written at least once."""

    client: ClientSettings
    transactional_id: str | None = None
    producer_id: int = -1
    epoch: int = -1
    options: Mapping[str, str]
    rules: tuple[CreationRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    records: int
    bytes: int
    topics: tuple[str, ...]


# The part of a cached plan that changes with every batch travels with the job, as a local property.


def carry(spark: SparkSession, pieces: Sequence[Sequence[SourcePiece]], target: WriteTarget) -> None:
    """Sets the pieces of each frame and the target for the next jobs of this thread."""
    load = base64.b64encode(pickle.dumps((tuple(tuple(piece) for piece in pieces), target))).decode()
    spark.sparkContext.setLocalProperty(_LOAD, load)


def _carried() -> tuple[tuple[tuple[SourcePiece, ...], ...], WriteTarget]:
    from pyspark import TaskContext

    context = TaskContext.get()
    load = None if context is None else context.getLocalProperty(_LOAD)
    assert load is not None, "the job was started without its load"
    carried: tuple[tuple[tuple[SourcePiece, ...], ...], WriteTarget] = pickle.loads(base64.b64decode(load))
    return carried


# Reading sources.


def read_source(
    spark: SparkSession,
    connector: ConnectorReference,
    task: Task,
    schema: str | StructType,
    *,
    frame: int,
    count: int,
) -> DataFrame:
    """The rows of `count` pieces of the same schema, in one Spark task each. The job carries the pieces."""
    from pyspark.sql.types import StructType

    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    function = partial(_read_pieces, connector, task, frame, wanted.json())
    return spark.range(0, count, 1, count).mapInArrow(function, wanted)


def _read_pieces(
    connector: ConnectorReference,
    task: Task,
    frame: int,
    schema: str,
    batches: Iterator[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    import json

    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    wanted = to_arrow_schema(StructType.fromJson(json.loads(schema)), timezone="UTC")
    pieces = _carried()[0][frame]
    kind = connector.load()
    assert issubclass(kind, SourceConnector)
    reader = None
    try:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                reader = reader or kind().reader(task)
                piece = pieces[number]
                for rows in reader.read(piece.partition, piece.start, piece.end):
                    yield from _conforming(rows, wanted)
    finally:
        if reader is not None:
            reader.close()


def _conforming(rows: pyarrow.RecordBatch, wanted: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    """Casts the reader's types to the wanted schema, because Spark requires equal types."""
    import pyarrow

    if rows.schema != wanted:
        columns = [rows.column(name).cast(wanted.field(name).type) for name in wanted.names]
        rows = pyarrow.RecordBatch.from_arrays(columns, schema=wanted)
    for start in range(0, rows.num_rows, _ROWS_MAX):
        yield rows.slice(start, _ROWS_MAX)


# Reading topics.


def read_topics(
    spark: SparkSession,
    client: Mapping[str, str],
    ranges: Sequence[OffsetRange],
    topic_ids: Mapping[str, str],
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The records of offset ranges, in one Spark task each, with the given columns of the source `ottla` or all.

    Every column costs time on its way from Python through the JVM, so unused columns are left out.
    """
    from pyspark.sql.types import StructType

    from ottla.spark.options import source_options
    from ottla.spark.schema import spark_schema
    from ottla.spark.source.ranges import Range

    schema = StructType.fromDDL(spark_schema(True))
    if columns is not None:
        schema = StructType([schema[name] for name in columns])
    headers = str("headers" in schema.names).lower()
    options = source_options({**client, "subscribe": "-", "includeHeaders": headers}, streaming=False)
    pieces = tuple(
        Range(piece.topic, topic_ids.get(piece.topic, ""), piece.partition, piece.start, piece.end) for piece in ranges
    )
    function = partial(_read_ranges, options, pieces, tuple(schema.names))
    return spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(function, schema)


def _read_ranges(
    options: Any, pieces: Sequence[Any], columns: tuple[str, ...], batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    from ottla.spark.source.ranges import read_range

    for batch in batches:
        for number in batch.column(0).to_pylist():
            for rows in read_range(options, pieces[number]):
                yield rows.select(columns)


# Writing topics.


def writing(frame: DataFrame, target: WriteTarget | None = None) -> DataFrame:
    """A frame that writes all rows in one Spark task when it is collected, to `target` or the job's target."""
    return frame.select(*outgoing_columns(frame)).coalesce(1).mapInArrow(partial(_write_rows, target), _WRITTEN)


class LostAttemptError(ConnectError):
    """The process that wrote a batch was lost: with its machine, out of memory, or because of the batch's data."""


def write(frame: DataFrame) -> Written:
    """Runs the frame that `writing` made."""
    rows = frame.collect()
    for row in rows:
        if row.records == _FAILED:
            raise ConnectError(row.topics)
        if row.records == _LOST:
            raise LostAttemptError("The process that wrote this batch ended without an error message.")
    topics = {topic for row in rows for topic in row.topics.split("\x00") if topic}
    return Written(
        records=sum(row.records for row in rows), bytes=sum(row.bytes for row in rows), topics=tuple(sorted(topics))
    )


def straight(
    spark: SparkSession, connector: ConnectorReference, task: Task, schema: StructType, *, count: int, topic: str
) -> DataFrame:
    """`read_source` and `writing` in one function, for rows whose bytes do not change: they never leave Python."""
    function = partial(_write_straight, connector, task, schema.json(), topic)
    return spark.range(0, count, 1, 1).mapInArrow(function, _WRITTEN)


def _write_straight(
    connector: ConnectorReference, task: Task, schema: str, topic: str, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    yield from _write_rows(None, _as_bytes(_read_pieces(connector, task, 0, schema, batches), topic))


def _as_bytes(batches: Iterator[pyarrow.RecordBatch], topic: str) -> Iterator[pyarrow.RecordBatch]:
    """Text as bytes, without a copy, and the topic column."""
    import pyarrow

    for rows in batches:
        columns = [column.cast(pyarrow.binary()) for column in rows.columns]
        named = pyarrow.repeat(pyarrow.scalar(topic), rows.num_rows)
        yield pyarrow.RecordBatch.from_arrays([*columns, named], names=[*rows.schema.names, "topic"])


def _write_rows(given: WriteTarget | None, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Writes rows. In a transaction errors are returned, not raised: Spark would retry, which only the driver may."""
    from pyspark import TaskContext

    target = given if given is not None else _carried()[1]
    if target.transactional_id is None:
        yield _written(target, batches)
        return
    context = TaskContext.get()
    try:
        if context is not None and context.attemptNumber() > 0:
            # A second attempt would use the sequence numbers of the first, which was lost or got no rows. If reading
            # the rows still fails, that error is reported; otherwise the cause is unknown.
            _drain(batches)
            yield _result("", _LOST, 0)
            return
        yield _written(target, batches)
    except Exception:  # noqa: BLE001 - it goes to the driver, which raises it
        failure = traceback.format_exc()
        _drain(batches)
        yield _result(failure, _FAILED, 0)


def _written(target: WriteTarget, batches: Iterator[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    from pyarrow import compute

    from ottla.client.producer import ProducerSettings
    from ottla.spark.sink.client import sink_client
    from ottla.spark.sink.options import sink_options
    from ottla.spark.sink.stream import RecordStream

    options = sink_options(dict(target.options), streaming=False)
    client = sink_client(options.client)
    producer = client.producer(
        ProducerSettings(
            linger_ms=0,
            batch_size=options.batch_bytes,
            compression=options.compression,
            compression_level=options.compression_level,
            buffer_bytes=options.buffer_bytes,
            delivery_timeout_ms=options.delivery_timeout_ms,
            transactional_id=target.transactional_id,
        )
    )
    topics: set[str] = set()
    try:
        if target.transactional_id is not None:
            producer.join_transaction(target.producer_id, target.epoch)
        stream = RecordStream(client, producer, options)
        for rows in batches:
            for topic in compute.unique(rows.column("topic")).to_pylist():
                if topic is not None and topic not in topics:
                    topics.add(topic)
                    _create_topic(client, topic, target.rules)
            stream.add(rows)
        stream.finish()
    finally:
        client.close_producer(producer)
    return _result("\x00".join(sorted(topics)), stream.records, stream.bytes)


def _result(topics: str, records: int, size: int) -> pyarrow.RecordBatch:
    import pyarrow

    return pyarrow.RecordBatch.from_arrays([[topics], [records], [size]], names=["topics", "records", "bytes"])


def _drain(batches: Iterator[pyarrow.RecordBatch]) -> None:
    for _ in batches:
        pass


def _create_topic(client: Any, topic: str, rules: Sequence[CreationRule]) -> None:
    """Creates a missing topic by the first rule that matches; without a rule it is left to the brokers."""
    from ottla.client.admin.topics import NewTopic, Topics
    from ottla.model.errors import ErrorCode, KafkaError

    rule = next((rule for rule in rules if rule.fits(topic)), None)
    if rule is None:
        return

    async def create() -> None:
        metadata = await client.cluster.refresh([topic])
        info = metadata.topics.get(topic)
        if info is not None and info.error is None:
            return
        factor = min(3, len(metadata.brokers)) if rule.replication_factor == UP_TO_THREE else rule.replication_factor
        new = NewTopic(name=topic, partitions=rule.partitions, replication_factor=factor, configs=rule.configs)
        answer = (await Topics(client.cluster).create([new]))[topic]
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer

    client.call(create())
