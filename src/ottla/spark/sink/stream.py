"""Sends rows: Arrow batches are split by topic, encoded, and given to a producer as whole record batches."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from ottla.client.columns.encode import EncodedBatch, TopicEncoder
from ottla.client.errors import ClientError
from ottla.client.metadata import TopicInfo
from ottla.client.producer import Producer
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.spark.sink.client import SinkClient
from ottla.spark.sink.options import ExtraRecord, SinkOptions

if TYPE_CHECKING:
    import pyarrow

__all__ = ["RecordStream", "SinkError"]


# Metadata that was requested before the first rows came is used if it is younger than this.
_FRESH_SECONDS = 1.0


class SinkError(Exception):
    """Rows could not be written. The message has the reason and a remedy."""


class RecordStream:
    """The output of one task. Call `add` any number of times, then `finish`, which waits for all acknowledgements."""

    def __init__(
        self,
        client: SinkClient,
        producer: Producer,
        options: SinkOptions,
        *,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self._client = client
        self._producer = producer
        self._options = options
        self._headers = headers
        self._encoders: dict[str, TopicEncoder] = {}
        self._requested: tuple[float, Future[TopicInfo]] | None = None
        # The first failure; later failures follow from it.
        self.failure: BaseException | None = None
        self.records = 0
        self.bytes = 0

    def expect_rows(self) -> None:
        """Requests metadata of the only topic already, so that the first rows do not wait for it."""
        if self._options.topic is not None:
            self._requested = time.monotonic(), self._client.submit(self._fresh(self._options.topic, create=False))

    def add(self, rows: pyarrow.RecordBatch) -> None:
        for topic, topic_rows in self._by_topic(rows):
            encoder = self._encoders.get(topic)
            if encoder is None:
                encoder = self._encoders[topic] = self._encoder(topic)
            try:
                full = encoder.encode(topic_rows, now_ms=int(time.time() * 1000))
            except ValueError as error:
                raise SinkError(f"A row cannot be written to topic {topic!r}: {error}.") from None
            self._send(topic, full)
            self.records += topic_rows.num_rows

    def add_extra(self, records: Iterable[ExtraRecord]) -> None:
        """Adds a small number of records that are not rows."""

        async def send() -> None:
            for record in records:
                delivery = await self._producer.send(record.topic, record.value, record.key, partition=record.partition)
                delivery.batch.done.add_done_callback(self._on_acknowledged)

        self._client.call(send())

    def finish(self) -> None:
        for topic, encoder in self._encoders.items():
            self._send(topic, encoder.finish())
        self._client.call(self._producer.flush())
        if self.failure is not None:
            raise self.failure

    def _by_topic(self, rows: pyarrow.RecordBatch) -> list[tuple[str, pyarrow.RecordBatch]]:
        if not rows.num_rows:
            return []
        if self._options.topic is not None:
            return [(self._options.topic, rows)]
        from pyarrow import compute

        column = rows.column("topic")
        if column.null_count:
            raise SinkError("A row has no topic: its column 'topic' is null, and the option 'topic' is not set.")
        names = compute.unique(column).to_pylist()
        if len(names) == 1:
            return [(names[0], rows)]
        return [(name, rows.filter(compute.equal(column, name))) for name in names]

    def _encoder(self, topic: str) -> TopicEncoder:
        # Every task requests fresh metadata: topics get partitions, or are deleted and created again.
        requested, self._requested = self._requested, None
        info = None
        if requested is not None and time.monotonic() - requested[0] < _FRESH_SECONDS:
            # If the request failed, or if there is no such topic, the topic is requested again, and created.
            with contextlib.suppress(KafkaError, ClientError):
                info = requested[1].result()
        if info is None:
            info = self._client.call(self._fresh(topic, create=True))
        return TopicEncoder(
            partitions=len(info.partitions),
            available=[partition.partition for partition in info.partitions.values() if partition.leader >= 0],
            batch_bytes=self._options.batch_bytes,
            seed=random.getrandbits(63),
            extra_headers=self._headers,
        )

    async def _fresh(self, topic: str, *, create: bool) -> TopicInfo:
        return await self._client.cluster.fresh_topic(topic, create=create)

    def _send(self, topic: str, batches: list[EncodedBatch]) -> None:
        if self.failure is not None:
            raise self.failure
        if not batches:
            return
        self.bytes += sum(len(batch.records.payload) for batch in batches)

        async def send() -> None:
            for batch in batches:
                done = await self._producer.send_encoded(TopicPartition(topic, batch.partition), batch.records)
                done.add_done_callback(self._on_acknowledged)

        self._client.call(send())

    def _on_acknowledged(self, done: asyncio.Future[tuple[int, int]]) -> None:
        if not done.cancelled() and self.failure is None:
            self.failure = done.exception()
