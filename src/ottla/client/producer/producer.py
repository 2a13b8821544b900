"""`Producer`: sends records in batches, in order.

`send` adds a record to its partition's open batch and returns a `Delivery`, which may be awaited. A batch is closed
when it is full or after `linger_ms`. `accumulator` fills batches, `sender` sends and retries them; this module is the
public interface. Interceptors come first, then the partitioner; a record with a partition skips the latter.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.errors import BufferExhausted, ClientClosed, ClientError, TimedOut
from ottla.client.figures import ClientFigures
from ottla.client.measures import PRODUCER_METRICS, PRODUCER_TOTALS
from ottla.client.metadata import TopicInfo
from ottla.client.opening import opened
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Delivery, EncodedRecords, OnDelivery
from ottla.client.producer.interceptors import InterceptorChain, OutgoingRecord, RecordMetadata
from ottla.client.producer.sender import Sender
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.serializing import Serializing
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import PreparedTransaction, TransactionManager
from ottla.client.producer.turns import Turns
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from ottla.client.columns.encode import EncodedBatch
    from ottla.client.columns.sending import TableDelivery

__all__ = ["Producer"]

logger = logging.getLogger(__name__)

# A send lets the sender work after this many batches were closed.
CLOSED_BATCHES_MAX = 4
# Large enough for good compression and few requests, and below the size that brokers accept by default.
TABLE_BATCH_BYTES = 256 * 1024


class Producer:
    """An async context manager. One event loop owns it; see `blocking` for threads.

    The first argument is a dictionary with Kafka's configuration keys, or typed settings together with the second.
    """

    def __init__(
        self, settings: ClientSettings | Cluster | Mapping[str, Any], producer: ProducerSettings | None = None
    ) -> None:
        self.settings, self._cluster, self._owned, config = opened(
            settings, producer, default=ProducerSettings, read=_read
        )
        identity = ProducerIdentity()
        self._transactions = TransactionManager(self._cluster, self.settings, identity)
        self._batches = Accumulator(self.settings, self._transactions)
        self._sender = Sender(self._cluster, self.settings, self._batches, identity, self._transactions)
        self._turns = Turns()
        # Topics for which the last send that had to wait has timed out.
        self._stuck: set[str] = set()
        self._topics = self._cluster.metadata.topics
        self._interceptors = InterceptorChain(self.settings.interceptors)
        self._serializing = Serializing(self.settings.key_serializer, self.settings.value_serializer)
        self._serializing.configure(config)
        # True if a record is not sent as it is given.
        self._converts = bool(self._interceptors) or bool(self._serializing)
        self._closed = False
        self._closing = asyncio.Lock()
        self.measures = self._sender.measures
        self._figures = ClientFigures(
            self._cluster,
            PRODUCER_METRICS,
            PRODUCER_TOTALS,
            self.measures,
            resource={"transactional_id": self.settings.transactional_id},
            gauges=self._gauges,
            owns_connections=self._owned,
        )

    def metrics(self) -> dict[str, float]:
        """Recent rates and averages under Kafka's names; `measures` has the totals."""
        return self._figures.values()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> Uuid:
        """The id under which brokers get this client's metrics (KIP-714)."""
        return await self._figures.instance_id(timeout_ms)

    def _gauges(self) -> dict[str, float]:
        return {
            "buffer_total": self.settings.buffer_bytes,
            "buffer_available": self._batches.available_bytes,
            "waiting": len(self._turns.lines),
            "in_flight": self._sender.requests_in_flight,
        }

    # Sending.

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
        asked_at: float | None = None,
    ) -> Delivery:
        """Adds a record to a batch, after waiting for room in the buffer. Await the result for the offset.

        Key and value are bytes or None, or objects that the serializers of the settings know. `on_delivery` is called
        with the record's position, or with its error; for the records of a partition in their order. `asked_at` is
        the time at which the application asked for it, by the clock of the loop, if that was before this call.
        """
        try:
            if self._converts:
                record = OutgoingRecord(topic, value, key, headers, partition, timestamp_ms)
                return await self._send_converted(record, on_delivery, asked_at)
            if (info := self._ready(topic, partition)) is not None:
                delivery = self._batches.append(info, value, key, headers, partition, timestamp_ms, on_delivery)
                if self._batches.closed_count >= CLOSED_BATCHES_MAX:
                    await self._let_sender_work()
                return delivery
            async with self._turn(topic, partition, asked_at) as info:
                return self._batches.append(info, value, key, headers, partition, timestamp_ms, on_delivery)
        except TypeError as error:
            self._serializing.explain(error, key=key, value=value)
            raise

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Sends a record and waits for its acknowledgement."""
        delivery = await self.send(topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        return await delivery

    async def send_encoded(self, partition: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        """Sends a batch of encoded records, after all earlier records of its partition."""
        if self._ready(partition.topic) is not None:
            return self._batches.append_encoded(partition, records)
        async with self._turn(partition.topic):
            return self._batches.append_encoded(partition, records)

    async def send_table(self, topic: str, table: Any, *, batch_bytes: int = TABLE_BATCH_BYTES) -> TableDelivery:
        """Sends the rows of an Arrow table or batch, or of a pandas or Polars frame. Needs pyarrow.

        The columns are value and, if wanted, key, headers, timestamp and partition. Rows of a partition keep their
        order, and follow all records sent before. Batches have up to `batch_bytes`, or `batch_size` if it is larger.
        Await the result for the offsets. Rows are encoded in portions, while the buffer has room. Serializers convert
        keys and values, one by one; interceptors and own partitioners do not see the rows.
        """
        # Imported with the first table: a producer of records needs no Arrow.
        from ottla.client.columns.encode import TopicEncoder
        from ottla.client.columns.sending import TableDelivery, portions, record_batches, serialized

        rows = record_batches(table)
        info = await self._cluster.topic(topic, create=True)
        encoder = TopicEncoder(
            partitions=len(info.partitions),
            available=[number for number, partition_info in info.partitions.items() if partition_info.leader >= 0],
            batch_bytes=min(max(batch_bytes, self.settings.batch_size), self.settings.request_bytes_max),
            seed=random.getrandbits(63) or 1,
        )
        sent = []
        now_ms = int(time.time() * 1000)

        async def send(batches: list[EncodedBatch]) -> None:
            for partition, records in batches:
                # Waits for room in the buffer, so no more than a portion is encoded ahead of it.
                done = await self.send_encoded(TopicPartition(topic, partition), records)
                sent.append((partition, records.record_count, done))

        for portion in portions(rows):
            converted = await serialized(portion, topic, self._serializing) if self._serializing else portion
            await send(encoder.encode(converted, now_ms=now_ms))
        await send(encoder.finish())
        return TableDelivery(sent)

    async def flush(self) -> None:
        """Waits until all records sent so far are acknowledged or have failed. Deliveries carry the failures."""
        self._sender.flushing += 1
        self._batches.wake.set()
        try:
            await self._turns.passed()
            unfinished = list(self._batches.unfinished)
            while unfinished:
                await asyncio.wait([batch.done for batch in unfinished])
                unfinished = [part for batch in unfinished for part in batch.parts or ()]
        finally:
            self._sender.flushing -= 1

    async def close(self, *, flush: bool = True) -> None:
        """Sends the remaining batches, aborts an open transaction, and closes the producer.

        While the cluster is down, this takes up to `delivery.timeout.ms` for records, and then up to `max.block.ms` for
        the abort. Without a flush batches that wait are dropped, and an open transaction ends with its time-out.
        """
        if not flush:
            await self._close()
            return
        # A second close waits for the first one. Otherwise it would cut off the abort of the first one.
        async with self._closing:
            if self._closed:
                return
            try:
                await self.flush()
                await self._abort_open_transaction()
            finally:
                await self._close()

    async def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._sender.stop()
        self._sender.fail_all(ClientClosed("The producer was closed."))
        self._interceptors.close()
        self._serializing.close()
        self._batches.close()
        await self._figures.close()
        if self._owned:
            await self._cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close()

    async def partitions(self, topic: str) -> int:
        return len((await self._cluster.topic(topic, create=True)).partitions)

    # Transactions.

    async def init_transactions(self, *, keep_prepared: bool = False) -> None:
        """Fences older producers of the transactional id, and ends their open transaction.

        `keep_prepared` keeps a prepared transaction: `complete_transaction` ends it (KIP-939).
        """
        await self._transactions.init(keeps_prepared=keep_prepared)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Sends all records; then only the end of the transaction may follow. Store the result where you decide."""
        await self._turns.passed()
        self._transactions.close()
        await self.flush()
        return self._transactions.prepare()

    async def complete_transaction(self, decided: PreparedTransaction) -> None:
        """Commits the prepared transaction if it is the one that was decided on, and aborts it otherwise."""
        self._transactions.check_prepared()
        await self._transactions.end(commit=decided == self._transactions.prepared)

    async def renew_transactions(self) -> None:
        """Recovers after a failure with a higher epoch. Raises PRODUCER_FENCED if another producer has the id."""
        await self._give_up("The transaction was given up.")
        await self._transactions.init(continuing=True)

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def spoil_transaction(self, error: Exception) -> None:
        """Makes the open transaction abort-only: the caller of a send that has failed does not get the error."""
        self._transactions.on_unsent(error)

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
        return await self._transactions.uses_second_version()

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
        await self._give_up("The transaction was aborted.")
        await self._transactions.end(commit=False)

    async def _abort_open_transaction(self) -> None:
        """Consumers of committed records would otherwise wait until the time-out of the transaction."""
        if not self._transactions.is_own_and_open:
            return
        try:
            await self.abort_transaction()
        except (ClientError, KafkaError) as error:
            logger.warning("The open transaction of %s was not aborted: %s", self.settings.transactional_id, error)

    async def _give_up(self, reason: str) -> None:
        """Drops unsent batches and waits for the answers to those in flight, which are not sent again."""
        self._sender.gives_up = True
        try:
            self._sender.fail_all(ClientError(reason))
            await self.flush()
        finally:
            self._sender.gives_up = False

    # Internals.

    def _ready(self, topic: str, partition: int | None = None) -> TopicInfo | None:
        """The topic's metadata, if a record can be added without waiting."""
        info = self._topics.get(topic)
        if info is None or info.error is not None or self._batches.is_full or self._closed:
            return None
        if partition is not None and partition not in info.partitions:
            return None
        # While any send waits, all other sends take their turns as well.
        return None if self._turns.lines or not self._sender.is_running else info

    @asynccontextmanager
    async def _turn(
        self, topic: str, partition: int | None = None, asked_at: float | None = None
    ) -> AsyncIterator[TopicInfo]:
        """The turn of a send that has to wait, with the topic's metadata."""
        now = asyncio.get_running_loop().time
        if asked_at is None:
            asked_at = now()
        async with self._turns.turn(topic):
            # If the previous send timed out, this send has waited with it: its time began when it was asked for.
            since = asked_at if topic in self._stuck else now()
            try:
                info = await self._prepare(topic, partition, since + self.settings.max_block_ms / 1000)
            except (ClientError, KafkaError):
                self._stuck.add(topic)
                raise
            self._stuck.discard(topic)
            yield info

    async def _prepare(self, topic: str, partition: int | None, deadline: float) -> TopicInfo:
        """Waits for the topic's metadata, a producer id, and room in the buffer; until the deadline in total."""
        self._check_not_closed()
        self._cluster.last_failure = None
        try:
            async with asyncio.timeout_at(deadline):
                info = await self._cluster.topic(topic, create=True)
                if partition is not None and partition not in info.partitions:
                    # The partition may have been added since.
                    info = await self._cluster.fresh_topic(topic)
                await self._sender.start()
                while not self._batches.room.is_set():
                    await self._batches.room.wait()
        except TimeoutError:
            raise self._block_error(topic) from None
        self._check_not_closed()
        return info

    def _block_error(self, topic: str) -> TimedOut:
        waited = f"within max.block.ms={self.settings.max_block_ms}"
        if not self._batches.room.is_set():
            return BufferExhausted(
                f"{topic}: the buffer of {self.settings.buffer_bytes} bytes had no room {waited}. The cluster takes "
                "records more slowly than they are sent; send fewer, or raise buffer.memory."
            )
        advice = self._cluster.last_failure or "Is the cluster healthy, and does the topic exist?"
        return TimedOut(f"{topic}: there was no metadata {waited}. {advice}")

    async def _send_converted(
        self, record: OutgoingRecord, on_delivery: OnDelivery | None, asked_at: float | None
    ) -> Delivery:
        """Interceptors come first, then the serializers."""
        record = self._interceptors.on_send(record)
        if not self._interceptors:
            return await self._append(await self._serializing.record(record), on_delivery, asked_at)
        observed = self._interceptors.on_acknowledgement

        def on_acknowledgement(metadata: RecordMetadata, error: Exception | None) -> None:
            observed(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        try:
            return await self._append(await self._serializing.record(record), on_acknowledgement, asked_at)
        except Exception as error:
            # Also an error of a serializer: every interceptor that got the record gets its outcome.
            observed(RecordMetadata(record.topic, -1 if record.partition is None else record.partition, -1, -1), error)
            raise

    async def _let_sender_work(self) -> None:
        """A loop of sends would otherwise keep the sender waiting until the buffer is full."""
        if self._batches.closed_count >= CLOSED_BATCHES_MAX:
            self._batches.closed_count = 0
            await asyncio.sleep(0)

    async def _append(self, record: OutgoingRecord, on_delivery: OnDelivery | None, asked_at: float | None) -> Delivery:
        topic, value, key, headers, partition, timestamp = record
        if (info := self._ready(topic, partition)) is not None:
            delivery = self._batches.append(info, value, key, headers, partition, timestamp, on_delivery)
            await self._let_sender_work()
            return delivery
        async with self._turn(topic, partition, asked_at) as info:
            return self._batches.append(info, value, key, headers, partition, timestamp, on_delivery)

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ClientClosed("The producer is closed.")


def _read(config: Mapping[str, Any]) -> tuple[ClientSettings, ProducerSettings]:
    # Imported with the first dictionary: settings in types need no reader.
    from ottla.client.config.producer import read_producer

    return read_producer(config)
