"""`Producer`: sends records in batches, in order.

`send` adds a record to its partition's open batch and returns a `Delivery`, which may be awaited. A batch is closed
when it is full or after `linger_ms`. `accumulator` fills batches, `sender` sends and retries them; this module is the
public interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientClosed, ClientError
from ottla.client.measures import PRODUCER_METRICS, Recent, tell
from ottla.client.metadata import TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Delivery, EncodedRecords, RecordMetadata
from ottla.client.producer.sender import Sender
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import TransactionManager
from ottla.client.producer.turns import Turns
from ottla.client.settings import ClientSettings
from ottla.model.ids import TopicPartition

__all__ = ["Producer"]


class Producer:
    """An async context manager. One event loop owns it; see `blocking` for threads."""

    def __init__(self, settings: ClientSettings | Cluster, producer: ProducerSettings | None = None) -> None:
        self.settings = producer or ProducerSettings()
        self._owned = isinstance(settings, ClientSettings)
        self._cluster = Cluster(settings) if isinstance(settings, ClientSettings) else settings
        identity = ProducerIdentity()
        self._transactions = TransactionManager(self._cluster, self.settings, identity)
        self._batches = Accumulator(self.settings, self._transactions)
        self._sender = Sender(self._cluster, self.settings, self._batches, identity, self._transactions)
        self._turns = Turns()
        self._closed = False
        self.measures = self._sender.measures
        self._recent = Recent(self.measures, self._cluster.measures)

    def metrics(self) -> dict[str, float]:
        """Recent rates and averages under Kafka's names; `measures` has the totals."""
        return tell(PRODUCER_METRICS, self._recent)

    # Sending.

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Adds a record to a batch, after waiting for room in the buffer. Await the result for the offset."""
        if (info := self._ready(topic)) is not None:
            return self._batches.append(info, value, key, headers, partition, timestamp_ms)
        async with self._turns.turn(topic):
            return self._batches.append(await self._prepare(topic), value, key, headers, partition, timestamp_ms)

    async def send_and_wait(self, topic: str, value: bytes | None = None, key: bytes | None = None) -> RecordMetadata:
        return await (await self.send(topic, value, key))

    async def send_encoded(self, partition: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        """Sends a batch of encoded records, after all earlier records of its partition."""
        if self._ready(partition.topic) is not None:
            return self._batches.append_encoded(partition, records)
        async with self._turns.turn(partition.topic):
            await self._prepare(partition.topic)
            return self._batches.append_encoded(partition, records)

    async def flush(self) -> None:
        """Waits until all records sent so far are acknowledged or have failed. Deliveries carry the failures."""
        self._sender.flushing += 1
        self._batches.wake.set()
        try:
            await self._turns.passed()
            if self._batches.unfinished:
                await asyncio.wait([batch.done for batch in self._batches.unfinished])
        finally:
            self._sender.flushing -= 1

    async def close(self) -> None:
        """Sends the remaining batches and closes the producer."""
        if self._closed:
            return
        try:
            await self.flush()
        finally:
            self._closed = True
            await self._sender.stop()
            self._sender.fail_all(ClientClosed("The producer was closed."))
            if self._owned:
                await self._cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close()

    async def partitions(self, topic: str) -> int:
        return len((await self._cluster.topic(topic, create=True)).partitions)

    # Transactions.

    async def init_transactions(self) -> None:
        """Fences older producers of the transactional id, and completes their open transaction."""
        await self._transactions.init()

    async def renew_transactions(self) -> None:
        """Recovers after a failure with a higher epoch. Raises PRODUCER_FENCED if another producer has the id."""
        self._sender.fail_all(ClientError("The transaction was given up."))
        await self.flush()
        await self._transactions.init(continuing=True)

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def share_transaction(self) -> tuple[int, int]:
        """The producer id and epoch for `join_transaction` in other processes; this producer ends the transaction."""
        return self._transactions.share()

    def join_transaction(self, producer_id: int, epoch: int) -> None:
        """Writes in the transaction of another process with the same transactional id, which ends it.

        Only one process may write to a partition in the transaction, because sequence numbers begin at 0.
        """
        self._transactions.join(producer_id, epoch)

    async def transactions_raise_epoch(self) -> bool:
        """True if the end of a transaction raises the producer epoch (KIP-890)."""
        return self._transactions.adds_by_itself(await self._cluster.any_connection())

    async def send_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset], **member: Any
    ) -> None:
        """Commits offsets of a group in the transaction. `member` is the generation, member id and instance id."""
        await self._transactions.send_offsets(group_id, offsets, **member)

    async def commit_transaction(self) -> None:
        """Commits all records sent before, also by other asyncio tasks; records that they send later are refused."""
        await self._turns.passed()
        self._transactions.close()
        await self.flush()
        await self._transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Drops unsent batches and aborts the transaction."""
        self._transactions.close()
        self._sender.fail_all(ClientError("The transaction was aborted."))
        await self.flush()
        await self._transactions.end(commit=False)

    # Internals.

    def _ready(self, topic: str) -> TopicInfo | None:
        """The topic's metadata, if a record can be added without waiting."""
        info = self._cluster.metadata.topics.get(topic)
        if info is None or info.error is not None or not self._sender.is_running or not self._batches.room.is_set():
            return None
        return None if self._closed or self._turns.has_line(topic) else info

    async def _prepare(self, topic: str) -> TopicInfo:
        self._check_not_closed()
        info = await self._cluster.topic(topic, create=True)
        await self._sender.start()
        while not self._batches.room.is_set():
            await self._batches.room.wait()
        self._check_not_closed()
        return info

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ClientClosed("The producer is closed.")
