"""The sink as Spark's Python data source API wants it: Arrow batches in, one object for the driver and the workers."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.spark.lineage import lineage_headers
from ottla.spark.options import OptionError
from ottla.spark.sink.client import sink_client
from ottla.spark.sink.options import SinkOptions, sink_options
from ottla.spark.sink.recovery import end_open_transactions
from ottla.spark.sink.schema import check_schema
from ottla.spark.sink.stream import SinkError
from ottla.spark.sink.task import TaskIdentity, Written, write_at_least_once, write_exactly_once

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "StreamWriter", "TaskResult", "batch_writer", "each_batch", "stream_writer"]

# Local properties that Spark gives to every task of a streaming query. They are its own business, so a test holds them.
BATCH_ID_PROPERTY = "streaming.sql.batchId"
QUERY_ID_PROPERTY = "sql.streaming.queryId"

# A batch write that nobody named, with the second in which it began. Its markers are kept for longer than such a write
# takes, and for longer than attempts go on that Spark has given up: they must learn that their rows are written.
_NAMELESS = re.compile(r"ottla-write-(\d+)-.*")
_NAMELESS_KEPT_SECONDS = 24 * 3600

# When this process was last asked for a query's writer. A query that was away for longer than this may have left
# something: one that runs asks with every batch.
_AWAY_SECONDS = 10.0
_ASKED_MAX = 1000
_asked: dict[tuple[object, str], float] = {}


@dataclass
class TaskResult(WriterCommitMessage):
    """What a task tells the driver."""

    query_name: str
    partition: int
    written: Written


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool = False,  # noqa: ARG001
) -> StreamWriter:
    """Spark asks for it in the driver, before every batch and once more to commit it.

    To overwrite is its word for the output mode `complete`: the whole result in every batch, one after the other in
    the topic, as Spark's own connector does it.
    """
    parsed = sink_options(options, streaming=True)
    check_schema(schema, topic=parsed.topic)
    if parsed.exactly_once and parsed.query_name is not None:
        _recover(parsed)
    return StreamWriter(parsed)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool = False) -> BatchWriter:
    if overwrite:
        raise OptionError("A topic cannot be overwritten: use mode('append').")
    parsed = sink_options(options, streaming=False)
    check_schema(schema, topic=parsed.topic)
    if parsed.exactly_once:
        # A write of its own, unless the caller counts: then a repeated batch is recognised as such.
        name = parsed.query_name or f"ottla-write-{int(time.time())}-{uuid.uuid4()}"
        # Batches that the caller counts belong to the streaming query they are part of, or to none.
        query_id = parsed.query_id if parsed.batch_id is not None else str(uuid.uuid4())
        parsed = replace(parsed, query_name=name, query_id=query_id, batch_id=parsed.batch_id or 0)
    return BatchWriter(parsed)


def each_batch(options: Mapping[str, str], *, source: str = "ottla") -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: writes each batch exactly once. The way for the output mode `update`, which Spark does not
    offer to sinks in Python. `query.name` is needed, and must differ where a query writes to several places.
    """
    given = {"delivery": "exactly-once", **options}
    if not given.get("query.name"):
        raise OptionError("Option 'query.name' is missing: it says whose batches are counted.")

    def write(frame: DataFrame, batch_id: int) -> None:
        frame.write.format(source).mode("append").options(**given).option("batch.id", str(batch_id)).save()

    return write


class _Writer:
    """What batch and streaming writes have in common."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskResult:
        context = TaskContext.get()
        assert context is not None
        task = self.identity(context)
        client = sink_client(self.options.client)
        headers = self.headers(task)
        if self.options.exactly_once:
            written = write_exactly_once(client, self.options, task, iterator, headers=headers, steps=self.passed)
        else:
            written = write_at_least_once(client, self.options, iterator, headers=headers)
        return TaskResult(query_name=task.query_name, partition=task.partition, written=written)

    def identity(self, context: TaskContext) -> TaskIdentity:
        raise NotImplementedError

    def headers(self, task: TaskIdentity) -> Sequence[tuple[str, bytes]]:
        """What is added to every record."""
        if not self.options.lineage:
            return ()
        return lineage_headers(query_id=task.query_id, batch_id=task.batch_id, checkpoint=self.options.checkpoint)

    def passed(self, step: str) -> None:
        """A task has come this far (see `task.Steps`)."""

    def clean_up(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Ends what killed tasks have left open."""
        known = [self.options.query_name, *[one.query_name for one in messages if isinstance(one, TaskResult)]]
        name = next((one for one in known if one), None)
        if self.options.exactly_once and name is not None:
            client = sink_client(self.options.client)
            client.call(end_open_transactions(client.admin, name))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """One transaction for each task of a micro-batch."""

    def identity(self, context: TaskContext) -> TaskIdentity:
        batch_id, query_id = context.getLocalProperty(BATCH_ID_PROPERTY), context.getLocalProperty(QUERY_ID_PROPERTY)
        if batch_id is None or query_id is None:
            raise SinkError("This version of Spark does not tell tasks their batch: delivery cannot be exactly once.")
        return TaskIdentity(
            query_name=self.options.query_name or query_id,
            query_id=self.options.query_id or query_id,
            batch_id=int(batch_id),
            partition=context.partitionId(),
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: every task has committed its own transaction."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self.clean_up(messages)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The same for one batch, which the caller may have numbered (`batch.id`, as in `foreachBatch`)."""

    def identity(self, context: TaskContext) -> TaskIdentity:
        return TaskIdentity(
            query_name=self.options.query_name or "",
            query_id=self.options.query_id or context.getLocalProperty(QUERY_ID_PROPERTY) or "",
            batch_id=self.options.batch_id or 0,
            partition=context.partitionId(),
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Every task has committed its own transaction; markers of earlier writes without a name are taken away."""
        name = self.options.query_name
        if name is not None and _NAMELESS.fullmatch(name):
            client = sink_client(self.options.client)
            # Where it fails they expire, as those of every group without members do.
            with contextlib.suppress(KafkaError, ClientError):
                client.call(_forget_nameless(client.admin))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.clean_up(messages)


async def _forget_nameless(admin: AdminClient) -> None:
    """Deletes the groups of writes without a name that began long ago."""
    end = int(time.time()) - _NAMELESS_KEPT_SECONDS
    found = [(_NAMELESS.fullmatch(group.group_id), group.group_id) for group in await admin.groups.find()]
    old = [name for match, name in found if match is not None and int(match[1]) <= end]
    if old:
        await admin.groups.delete(old)


def _recover(options: SinkOptions) -> None:
    """At the beginning of a query, and when it comes back: ends what its killed tasks have left open."""
    assert options.query_name is not None
    key = (options.client, options.query_name)
    last, now = _asked.pop(key, None), time.monotonic()
    if len(_asked) >= _ASKED_MAX:
        _asked.clear()
    _asked[key] = now
    if last is not None and now - last < _AWAY_SECONDS:
        return
    client = sink_client(options.client)
    try:
        client.call(end_open_transactions(client.admin, options.query_name))
    except BaseException as error:
        # Not done: who asks next tries again, however soon that is.
        del _asked[key]
        if not isinstance(error, KafkaError):
            raise
        raise SinkError(
            f"What query {options.query_name!r} may have left open cannot be ended: {error.message}"
        ) from error
