"""The sink for Spark's Python data source API: writers of Arrow batches, made in the driver and sent to workers."""

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
from ottla.spark.failures import in_one_sentence
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

# Local properties of the tasks of a streaming query. They are internal to Spark, so a test checks them.
BATCH_ID_PROPERTY = "streaming.sql.batchId"
QUERY_ID_PROPERTY = "sql.streaming.queryId"

# The name of a batch write without a name, with the second of its start. Its markers outlive the write and any attempt
# that Spark has abandoned: such an attempt must see that its rows are written.
_NAMELESS = re.compile(r"ottla-write-(\d+)-.*")
_NAMELESS_KEPT_SECONDS = 24 * 3600

# The time of the last request for a query's writer. A running query requests one for every batch; after a longer gap it
# may have left open transactions.
_AWAY_SECONDS = 10.0
_REQUESTED_MAX = 1000
_requested_at: dict[tuple[object, str], float] = {}


@dataclass
class TaskResult(WriterCommitMessage):
    """The commit message of a task to the driver."""

    query_name: str
    partition: int
    written: Written


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool = False,  # noqa: ARG001
) -> StreamWriter:
    """Called by Spark in the driver, before every batch and once more to commit it.

    `overwrite` stands for the output mode `complete`: every batch appends the whole result to the topic, as with
    Spark's own connector.
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
        # Without a batch id of the caller every write is a new batch; with an id a repeated batch is recognised.
        name = parsed.query_name or f"ottla-write-{int(time.time())}-{uuid.uuid4()}"
        # Batches with an id belong to the streaming query that calls this, or to none.
        query_id = parsed.query_id if parsed.batch_id is not None else str(uuid.uuid4())
        parsed = replace(parsed, query_name=name, query_id=query_id, batch_id=parsed.batch_id or 0)
    return BatchWriter(parsed)


def each_batch(options: Mapping[str, str], *, source: str = "ottla") -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: writes every batch exactly once. Use it for the output mode `update`, which Spark does not
    offer to Python sinks. `query.name` is required, and must differ between several writes of one query.
    """
    given = {"delivery": "exactly-once", **options}
    if not given.get("query.name"):
        raise OptionError("Option 'query.name' is missing: batches are counted by query.")

    def write(frame: DataFrame, batch_id: int) -> None:
        frame.write.format(source).mode("append").options(**given).option("batch.id", str(batch_id)).save()

    return write


class _Writer:
    """The base of batch and streaming writers."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    @in_one_sentence
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
        """The headers that are added to every record."""
        if not self.options.lineage:
            return ()
        return lineage_headers(query_id=task.query_id, batch_id=task.batch_id, checkpoint=self.options.checkpoint)

    def passed(self, step: str) -> None:
        """Called when a task has passed a step (see `task.Steps`)."""

    def clean_up(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Ends open transactions of killed tasks."""
        known = [
            self.options.query_name,
            *[message.query_name for message in messages if isinstance(message, TaskResult)],
        ]
        name = next((candidate for candidate in known if candidate), None)
        if self.options.exactly_once and name is not None:
            client = sink_client(self.options.client)
            client.call(end_open_transactions(client.admin, name))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """One transaction for each task of a micro-batch."""

    def identity(self, context: TaskContext) -> TaskIdentity:
        batch_id, query_id = context.getLocalProperty(BATCH_ID_PROPERTY), context.getLocalProperty(QUERY_ID_PROPERTY)
        if batch_id is None or query_id is None:
            raise SinkError("This version of Spark gives tasks no batch id: delivery cannot be exactly once.")
        return TaskIdentity(
            query_name=self.options.query_name or query_id,
            query_id=self.options.query_id or query_id,
            batch_id=int(batch_id),
            partition=context.partitionId(),
            attempt=context.attemptNumber(),
        )

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do: every task has committed its own transaction."""

    @in_one_sentence
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self.clean_up(messages)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of a batch write, whose caller may set `batch.id`, as in `foreachBatch`."""

    def identity(self, context: TaskContext) -> TaskIdentity:
        return TaskIdentity(
            query_name=self.options.query_name or "",
            query_id=self.options.query_id or context.getLocalProperty(QUERY_ID_PROPERTY) or "",
            batch_id=self.options.batch_id or 0,
            partition=context.partitionId(),
            attempt=context.attemptNumber(),
        )

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Every task has committed its own transaction. Deletes markers of earlier writes without a name."""
        name = self.options.query_name
        if name is not None and _NAMELESS.fullmatch(name):
            client = sink_client(self.options.client)
            # If the deletion fails, the markers expire, as offsets of every group without members do.
            with contextlib.suppress(KafkaError, ClientError):
                client.call(_forget_nameless(client.admin))

    @in_one_sentence
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.clean_up(messages)


async def _forget_nameless(admin: AdminClient) -> None:
    """Deletes the groups of old writes without a name."""
    end = int(time.time()) - _NAMELESS_KEPT_SECONDS
    groups = [(_NAMELESS.fullmatch(group.group_id), group.group_id) for group in await admin.groups.find()]
    old = [name for match, name in groups if match is not None and int(match[1]) <= end]
    if old:
        await admin.groups.delete(old)


def _recover(options: SinkOptions) -> None:
    """Ends open transactions of a query's killed tasks, at its start and after a gap."""
    assert options.query_name is not None
    key = (options.client, options.query_name)
    last, now = _requested_at.pop(key, None), time.monotonic()
    if len(_requested_at) >= _REQUESTED_MAX:
        _requested_at.clear()
    _requested_at[key] = now
    if last is not None and now - last < _AWAY_SECONDS:
        return
    client = sink_client(options.client)
    try:
        client.call(end_open_transactions(client.admin, options.query_name))
    except BaseException as error:
        # The next request tries again at once.
        del _requested_at[key]
        if not isinstance(error, KafkaError):
            raise
        raise SinkError(
            f"Open transactions of query {options.query_name!r} cannot be ended: {error.message}"
        ) from error
