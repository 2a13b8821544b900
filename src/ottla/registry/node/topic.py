"""A compacted topic that one process at a time may write, and every process reads.

The writer has a transactional id: when a process becomes the writer, its predecessor is fenced, even if it was frozen
and has not noticed the change. A write returns when its transaction is committed and its records have been read back
and replayed. After a write with an unknown outcome the writer starts again, which settles the outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.compacted import CompactedReader, create_compacted_topic
from ottla.client.consumer import ConsumedRecord
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["CompactedTopic", "WriteFailed"]

logger = logging.getLogger(__name__)

# The close of a producer that cannot reach its cluster is abandoned after this time.
_CLOSE_SECONDS = 2.0

T = TypeVar("T")
Encoded = tuple[bytes, bytes | None]


class WriteFailed(Exception):
    """The records may or may not be in the topic."""


class CompactedTopic:
    def __init__(
        self, settings: ClientSettings, topic: str, on_record: Callable[[ConsumedRecord], None], *, replicas: int | None
    ) -> None:
        self.topic = topic
        self._settings = settings
        self._on_record = on_record
        self._replicas = replicas
        self._partition = TopicPartition(topic, 0)
        self._cluster: Cluster | None = None
        self._reader = CompactedReader(settings, topic, self._replay)
        self._producer: Producer | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Creates the topic if it is missing, and reads it to its end."""
        self._cluster = Cluster(self._settings)
        await create_compacted_topic(self._cluster, self.topic, replicas=self._replicas)
        await self._reader.start(self._cluster)

    async def stop(self) -> None:
        await self.stop_writing()
        await self._reader.stop()
        if self._cluster is not None:
            await self._cluster.close()

    async def read_to_end(self, timeout_ms: int = 60_000, *, settled: bool = False) -> None:
        """As that of the reader. Only a writer may pass `settled`: after the fencing, open transactions end soon."""
        await self._reader.read_to_end(timeout_ms, settled=settled)

    async def start_writing(self) -> None:
        """Fences every earlier writer, and reads all that they committed."""
        await self.stop_writing()
        settings = ProducerSettings(linger_ms=0, transactional_id=f"schema-registry-{self.topic}")
        producer = Producer(self._settings, settings)
        try:
            await producer.init_transactions()
            await self.read_to_end(settled=True)
        except BaseException:
            await _closed(producer)
            raise
        self._producer = producer

    async def stop_writing(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await _closed(producer)

    async def write(
        self, decide: Callable[[], tuple[list[Encoded], T]], timeout_ms: int, *, check: Callable[[], None]
    ) -> T:
        """Decides, and returns the answer when the records are committed and replayed. Raises WriteFailed.

        One decision runs at a time and sees all records before it, because no other writer can add any. `check` raises
        if this process is no longer the writer, which may happen while the write waits for its turn: it must not fence
        its successor.
        """
        async with self._lock:
            check()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    if self._producer is None:
                        await self.start_writing()
                    records, answer = decide()
                    if records:
                        await self._commit(records)
                    return answer
            except (ClientError, KafkaError, TimeoutError) as error:
                await self.stop_writing()
                raise WriteFailed(str(error) or "the cluster did not answer in time") from error
            except asyncio.CancelledError:
                # The next write begins with a new producer, which settles this one.
                await self.stop_writing()
                raise

    async def _commit(self, records: Sequence[Encoded]) -> None:
        # The role may be lost meanwhile; then this producer is closed, and its methods raise.
        producer = self._producer
        assert producer is not None
        producer.begin_transaction()
        deliveries = [await producer.send(self.topic, value, key) for key, value in records]
        offsets = [(await delivery).offset for delivery in deliveries]
        await producer.commit_transaction()
        await self._reader.wait_for(self._partition, offsets[-1] + 1)

    def _replay(self, record: ConsumedRecord) -> None:
        try:
            self._on_record(record)
        except Exception:
            # An exception would end the reader, and every later write would wait for ever.
            logger.exception("Record %d of %s cannot be replayed and is ignored", record.offset, self.topic)


async def _closed(producer: Producer) -> None:
    with suppress(ClientError, KafkaError, TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await producer.close()
