"""The exactly-once write of one Spark task.

1. InitProducerId for `<query>-<task>`. A producer lives for one task. A previous producer of the id is either done, or
   a zombie that is fenced here and whose open transaction is aborted. So workers that run the same task number in
   different batches never use stale epochs.
2. Read the marker. It is stable now: another task can change it only by fencing this producer. If it is past this
   batch, an earlier attempt has written the batch without Spark learning of it. The rows are drained, because a
   stateful operator above the sink stores its state only when its rows are consumed.
3. Write the rows, the extra records and the marker, and commit.

The first two steps need no rows. A task that had rows in the last batch begins them while it waits for its rows; they
leave nothing open if there are none. A repeated attempt waits for its rows first: a speculative attempt should not
fence its rival long before it can write. A task that has waited for its rows may be late: the marker is past its batch,
and the next batch has begun early on another worker. So the task also reads the marker before it fences a producer.

A rival (a speculative attempt, or the same task of a new driver) may fence this producer. That is not a failure yet: if
the rival writes the marker, its result counts. Otherwise this attempt fails and Spark repeats it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.spark.sink.client import SinkClient
from ottla.spark.sink.markers import ensure_partition, marker_of, written_up_to
from ottla.spark.sink.options import ExtraRecord, SinkOptions
from ottla.spark.sink.recovery import transactional_id
from ottla.spark.sink.stream import RecordStream, SinkError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["TaskIdentity", "Written", "write_at_least_once", "write_exactly_once"]

_FENCED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
)
# A fenced attempt waits this long for its rival's marker.
RIVAL_SECONDS = 30.0
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIdentity:
    """A task, its batch and its query."""

    query_name: str
    query_id: str
    batch_id: int
    partition: int
    # The number of earlier attempts.
    attempt: int = 0

    def __str__(self) -> str:
        return f"task {self.partition} of batch {self.batch_id} of query {self.query_name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    records: int = 0
    bytes: int = 0
    # True if an earlier attempt had written this task's part of the batch.
    skipped: bool = False


Steps = Callable[[str], None]
"""Called as a task passes "begun", "written", "marked" and "committed"; tests end processes there."""


def write_exactly_once(
    client: SinkClient,
    options: SinkOptions,
    task: TaskIdentity,
    batches: Iterator[pyarrow.RecordBatch],
    *,
    headers: Sequence[tuple[str, bytes]] = (),
    steps: Steps = lambda _: None,
) -> Written:
    extra = options.extra_records if task.partition == 0 else ()
    name = transactional_id(task.query_name, task.partition)
    early = None
    if client.expects_rows(name) and not task.attempt:
        early = _Transaction(client, options, task, headers, is_early=True)
    try:
        first = next((rows for rows in batches if rows.num_rows), None)
    except BaseException:
        if early is not None:
            early.close()
        raise
    client.remember(name, has_rows=first is not None)
    if first is None and not extra:
        # An empty task is empty in every attempt, so it needs no marker: empty tasks cost nothing.
        if early is not None:
            early.close()
        return Written()
    if early is not None and early.has_failed():
        # The cluster may have recovered while the rows were awaited.
        early.close()
        early = None
    transaction = early or _Transaction(client, options, task, headers)
    return _write(transaction, task, itertools.chain([] if first is None else [first], batches), extra, steps)


def _write(
    transaction: _Transaction,
    task: TaskIdentity,
    batches: Iterator[pyarrow.RecordBatch],
    extra: Sequence[ExtraRecord],
    steps: Steps,
) -> Written:
    stream = transaction.stream
    try:
        if transaction.is_written():
            _drain(batches)
            return Written(skipped=True)
        steps("begun")
        for rows in batches:
            stream.add(rows)
        if extra:
            stream.add_extra(extra)
        stream.finish()
        steps("written")
        transaction.mark()
        steps("marked")
        transaction.commit()
        steps("committed")
        return Written(records=stream.records, bytes=stream.bytes)
    except (KafkaError, ClientError) as error:
        cause = stream.failure or error
        if isinstance(cause, KafkaError) and cause.code in _FENCED:
            _drain(batches)
            return transaction.rivals_result(cause)
        transaction.abort()
        raise SinkError(f"{task} could not be written: {_sentence(cause)}") from cause
    except SinkError:
        transaction.abort()
        raise
    finally:
        transaction.close()


def write_at_least_once(
    client: SinkClient,
    options: SinkOptions,
    batches: Iterator[pyarrow.RecordBatch],
    *,
    headers: Sequence[tuple[str, bytes]] = (),
) -> Written:
    """Writes without a transaction: a task that fails half-way is repeated from its beginning."""
    producer = client.shared_producer(_settings(options))
    stream = RecordStream(client, producer, options, headers=headers)
    try:
        for rows in batches:
            stream.add(rows)
        stream.finish()
    except (KafkaError, ClientError) as error:
        client.forget_producer(producer)
        raise SinkError(f"Rows could not be written: {_sentence(stream.failure or error)}") from error
    except BaseException:
        client.forget_producer(producer)
        raise
    return Written(records=stream.records, bytes=stream.bytes)


class _Transaction:
    """A transaction and its marker. It begins when it is made; `is_written` waits for that."""

    def __init__(
        self,
        client: SinkClient,
        options: SinkOptions,
        task: TaskIdentity,
        headers: Sequence[tuple[str, bytes]],
        *,
        is_early: bool = False,
    ) -> None:
        self._client = client
        self._is_early = is_early
        self._task = task
        self._marker = TopicPartition(options.markers_topic, task.partition)
        self._timeout_ms = options.transaction_timeout_ms
        settings = _settings(options, transactional_id(task.query_name, task.partition))
        self.producer: Producer = client.producer(settings)
        self.stream = RecordStream(client, self.producer, options, headers=headers)
        self._begun: Future[bool] = client.submit(self._begin())
        self.stream.expect_rows()

    async def _begin(self) -> bool:
        if not self._is_early and await self._written_up_to(stable=False) > self._task.batch_id:
            # An open transaction is not waited for: it may be that of a dead attempt, which only the next line ends.
            return True
        await self.producer.init_transactions()
        self.producer.begin_transaction()
        return await self._written_up_to() > self._task.batch_id

    def has_failed(self) -> bool:
        return self._begun.done() and self._begun.exception() is not None

    def is_written(self) -> bool:
        """True if an earlier attempt has written the rows."""
        return self._begun.result()

    def mark(self) -> None:
        async def mark() -> None:
            task = self._task
            await ensure_partition(self._client.admin, self._marker)
            marker = {self._marker: marker_of(task.batch_id, task.query_id)}
            await self.producer.send_offsets(task.query_name, marker)

        self._client.call(mark())

    def commit(self) -> None:
        self._client.call(self.producer.commit_transaction())

    def abort(self) -> None:
        """Aborts without raising: the next attempt or the driver ends a transaction that stays open."""
        try:
            self._client.call(self.producer.abort_transaction())
        except (KafkaError, ClientError):
            return

    def close(self) -> None:
        self._begun.cancel()
        self._client.close_producer(self.producer)

    def rivals_result(self, error: KafkaError) -> Written:
        """Waits for the rival to write the marker. Raises SinkError if it does not."""

        async def wait() -> bool:
            end = asyncio.get_running_loop().time() + RIVAL_SECONDS
            while asyncio.get_running_loop().time() < end:
                if await self._written_up_to() > self._task.batch_id:
                    return True
                await asyncio.sleep(_LOOK_SECONDS)
            return False

        if self._client.call(wait()):
            return Written(skipped=True)
        raise SinkError(
            f"{self._task} was fenced ({error.code.name}) and no other attempt has written it. Either it took longer "
            f"than transaction.timeout.ms ({self._timeout_ms}), or another query runs under the same name."
        ) from error

    async def _written_up_to(self, *, stable: bool = True) -> int:
        return await written_up_to(
            self._client.admin,
            group_id=self._task.query_name,
            marker=self._marker,
            query_id=self._task.query_id,
            stable=stable,
        )


def _settings(options: SinkOptions, transactional_id: str | None = None) -> ProducerSettings:
    return ProducerSettings(
        acks=options.acks,
        linger_ms=0,
        batch_size=options.batch_bytes,
        compression=options.compression,
        compression_level=options.compression_level,
        buffer_bytes=options.buffer_bytes,
        delivery_timeout_ms=options.delivery_timeout_ms,
        request_timeout_ms=options.client.request_timeout_ms,
        transactional_id=transactional_id,
        transaction_timeout_ms=options.transaction_timeout_ms,
    )


def _sentence(error: BaseException) -> str:
    if not isinstance(error, KafkaError):
        return str(error)
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        return f"{error.message} Lower option batch.size, or raise max.message.bytes of the topic."
    return error.message


def _drain(batches: Iterator[pyarrow.RecordBatch]) -> None:
    for _ in batches:
        pass
