"""Encodes what tasks emit: records of topics and of changelogs become batches of a producer."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.columns.encode import EncodedBatch, TopicEncoder
from ottla.client.columns.schema import HEADER_TYPE
from ottla.client.producer import Producer
from ottla.client.producer.batch import EncodedRecords
from ottla.model.ids import TopicPartition
from ottla.streams.machine.handlers import DefaultProductionExceptionHandler, ErrorHandlerContext
from ottla.streams.machine.task import ChangelogColumns, ChangelogRecord, OutputRecord
from ottla.streams.record import Headers
from ottla.streams.runtime.refusals import Refusals, identity_of

__all__ = ["RecordWriter"]

_Change = tuple[bytes | None, int, Headers]
_MICROSECONDS = pa.timestamp("us", tz="UTC")


class _Sent:
    """A batch that was sent. It is kept until it is delivered, in case a broker refuses it."""

    __slots__ = ("delivery", "place", "records")

    def __init__(
        self, place: TopicPartition, records: EncodedRecords, delivery: asyncio.Future[tuple[int, int]]
    ) -> None:
        self.place = place
        self.records = records
        self.delivery = delivery


class RecordWriter:
    """Collects records by topic; `send` hands them to the producer, in order within each partition."""

    def __init__(
        self,
        producer: Producer,
        *,
        keeps_every_change: Iterable[str] = (),
        generator: random.Random | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._producer = producer
        self._refusals = refusals or Refusals(DefaultProductionExceptionHandler(), ())
        # The origins of uncommitted records, for a user's production handler.
        self._origins: dict[bytes, ErrorHandlerContext] = {}
        self._random = generator or random.Random()
        self._encoders: dict[str, TopicEncoder] = {}
        # Records one by one, and whole columns, in the order in which they came.
        self._outputs: dict[str, list[OutputRecord | pa.RecordBatch]] = {}
        # (changelog, partition) -> key -> value, timestamp and headers of the last change; versioned stores need all.
        self._changes: dict[tuple[str, int], dict[bytes, _Change]] = {}
        self._versions: dict[tuple[str, int], list[tuple[bytes, _Change]]] = {}
        # Columns of keys that are new.
        self._appended: dict[tuple[str, int], list[ChangelogColumns]] = {}
        self._keeps_every_change = frozenset(keeps_every_change)
        self._changelogs: set[str] = set()
        # Batches that are not delivered, in the order in which they were sent. All values are None.
        self._sent: dict[_Sent, None] = {}
        # The offsets behind the records of changelogs that were delivered since `wait_delivered`.
        self._delivered: dict[TopicPartition, int] = {}
        # The offsets behind the records of changelogs that `wait_delivered` has waited for since `take_positions`.
        self._positions: dict[TopicPartition, int] = {}

    @property
    def is_empty(self) -> bool:
        return not (self._outputs or self._changes or self._versions or self._appended)

    def add_outputs(self, outputs: Iterable[OutputRecord]) -> None:
        for record in self._refusals.without_dropped(outputs):
            if record.origin is not None:
                self._origins[identity_of(record)] = record.origin
            topic_outputs = self._outputs.get(record.topic)
            if topic_outputs is None:
                topic_outputs = self._outputs[record.topic] = []
            topic_outputs.append(record)

    def add_columns(self, topic: str, rows: pa.RecordBatch) -> None:
        self._outputs.setdefault(topic, []).append(rows)

    def add_changes(self, topic: str, partition: int, changes: Iterable[ChangelogRecord]) -> None:
        """Of several changes of a key in one commit only the last is written."""
        self._changelogs.add(topic)
        if topic in self._keeps_every_change:
            self._versions.setdefault((topic, partition), []).extend((change.key, change[2:]) for change in changes)
            return
        last = self._changes.setdefault((topic, partition), {})
        for change in changes:
            # The order of the last writes counts, because a buffer's time may depend on it.
            last.pop(change.key, None)
            last[change.key] = change[2:]

    def add_change_columns(self, topic: str, partition: int, changes: ChangelogColumns) -> None:
        self._changelogs.add(topic)
        if isinstance(changes.keys, pa.Array):
            self._appended.setdefault((topic, partition), []).append(changes)
            return
        contents = zip(changes.values, changes.timestamps, itertools.repeat(()))
        self._changes.setdefault((topic, partition), {}).update(zip(changes.keys, contents, strict=False))

    async def send_outputs(self, now_ms: int) -> None:
        """Sends full batches; `send_open` sends the other batches."""
        outputs, self._outputs = self._outputs, {}
        for topic, content in outputs.items():
            for is_record, group in itertools.groupby(content, lambda output: isinstance(output, OutputRecord)):
                for rows in [_rows_of(list(group), now_ms)] if is_record else group:
                    await self._encode(topic, rows, now_ms)
        # Keys that are new need not wait for later changes of them.
        appended, self._appended = self._appended, {}
        for (topic, partition), runs in appended.items():
            for run in runs:
                await self._encode(topic, _run_batch(run, partition), now_ms)

    async def send_all(self, now_ms: int) -> None:
        """Called before a commit: sends everything, with the changes of stores."""
        await self.send_outputs(now_ms)
        collected = [(place, list(by_key.items())) for place, by_key in self._changes.items()]
        collected += list(self._versions.items())
        self._changes, self._versions = {}, {}
        for (topic, partition), changes in collected:
            if not changes:
                continue
            keys = [key for key, _ in changes]
            values, times, headers = zip(*(change for _, change in changes), strict=True)
            batch = _batch(keys, list(values), list(times), [partition] * len(changes), list(headers), now_ms)
            await self._encode(topic, batch, now_ms)
        await self.send_open()

    async def send_open(self) -> None:
        """Sends batches that are not full, too, without waiting for more records."""
        for topic, encoder in self._encoders.items():
            for batch in encoder.finish():
                await self._send(topic, batch)

    async def wait_delivered(self) -> None:
        """Raises the failure of a batch that was not acknowledged."""
        sent = list(self._sent)
        await asyncio.gather(*(batch.delivery for batch in sent))
        for batch in sent:
            self._on_delivered(batch)
        delivered, self._delivered = self._delivered, {}
        for place, end in delivered.items():
            self._positions[place] = max(self._positions.get(place, 0), end)
        self._origins.clear()

    def judge_refusals(self) -> bool:
        """After a failure: True if brokers have refused batches that the next attempt avoids.

        Raises FailedProcessingError if a record cannot be written and must not be left out.
        """
        verdicts = [
            self._refusals.judge(batch.place.topic, batch.records, batch.delivery.exception(), self._origins)
            for batch in self._sent
            if batch.delivery.done() and not batch.delivery.cancelled() and batch.delivery.exception() is not None
        ]
        return any(verdicts)

    def take_positions(self) -> dict[TopicPartition, int]:
        """The ends of changelogs that were written since the last call.

        Older ends must not be returned again: another worker may have run the task meanwhile, and written more.
        """
        taken, self._positions = self._positions, {}
        return taken

    async def _send(self, topic: str, batch: EncodedBatch) -> None:
        place = TopicPartition(topic, batch.partition)
        delivery = await self._producer.send_encoded(place, batch.records)
        sent = _Sent(place, batch.records, delivery)
        self._sent[sent] = None
        delivery.add_done_callback(lambda _: self._on_done(sent))

    def _on_done(self, batch: _Sent) -> None:
        if not batch.delivery.cancelled() and batch.delivery.exception() is None:
            self._on_delivered(batch)

    def _on_delivered(self, batch: _Sent) -> None:
        """Forgets a batch: there may be many until the next commit."""
        if batch not in self._sent:
            return
        del self._sent[batch]
        if batch.place.topic in self._changelogs:
            end = batch.delivery.result()[0] + batch.records.record_count
            self._delivered[batch.place] = max(self._delivered.get(batch.place, 0), end)

    async def _encode(self, topic: str, rows: pa.RecordBatch, now_ms: int) -> None:
        encoder = self._encoders.get(topic)
        if encoder is None:
            count = await self._producer.partitions(topic)
            encoder = self._encoders[topic] = TopicEncoder(
                partitions=count,
                available=range(count),
                batch_bytes=self._refusals.batch_bytes(topic),
                seed=self._random.getrandbits(63),
            )
        for full in encoder.encode(rows, now_ms=now_ms):
            await self._send(topic, full)


def _rows_of(records: list[Any], now_ms: int) -> pa.RecordBatch:
    return _batch(
        [record.key for record in records],
        [record.value for record in records],
        [record.timestamp for record in records],
        [record.partition for record in records],
        [record.headers for record in records],
        now_ms,
    )


def _run_batch(run: ChangelogColumns, partition: int) -> pa.RecordBatch:
    columns = {
        "key": run.keys,
        "value": run.values,
        "timestamp": pa.array(run.timestamps * 1000).cast(_MICROSECONDS),
        "partition": pa.array(np.full(len(run.keys), partition, np.int32)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _batch(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: list[int],
    partitions: list[int | None],
    headers: list[tuple[tuple[str, bytes | None], ...]],
    now_ms: int,
) -> pa.RecordBatch:
    times = np.asarray(timestamps, np.int64)
    times = np.where(times < 0, now_ms, times) * 1000
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "timestamp": pa.array(times).cast(_MICROSECONDS),
    }
    if any(partition is not None for partition in partitions):
        columns["partition"] = pa.array(partitions, pa.int32())
    if any(headers):
        rows = [[{"key": name, "value": content} for name, content in record_headers] for record_headers in headers]
        columns["headers"] = pa.array(rows, HEADER_TYPE)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
