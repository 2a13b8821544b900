"""`Producer`: records in, batches out, order kept.

`send` puts a record into its partition's open batch and gives back a `Delivery` to await, or not. A batch is closed
when it is full or has waited `linger_ms`; one task drains closed batches, one request for each broker with at most one
batch of each partition, up to five requests in flight for each broker. While a batch of a partition waits to be sent
again, nothing younger of that partition leaves, and what was in flight behind it comes back into its place: so order
holds, and an idempotent producer's sequence numbers fit.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import ClientClosed, ClientError, ConnectionLost, TimedOut, error_of
from ottla.client.measures import PRODUCER_METRICS, ProducerMeasures, Recent, tell
from ottla.client.metadata import TopicInfo
from ottla.client.producer.batch import Delivery, EncodedRecords, ProducerBatch, RecordMetadata, looked_at, size_at_most
from ottla.client.producer.partitioner import Partitioner, StickyPartitioner
from ottla.client.producer.queue import PartitionQueue
from ottla.client.producer.requests import answers_by_partition, produce_request
from ottla.client.producer.sequences import ProducerIdentity, ask_identity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import TransactionManager
from ottla.client.producer.turns import Turns
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

__all__ = ["Producer"]

# Transactions of the old protocol may not use the versions that add partitions by themselves (KIP-890).
_OLD_TRANSACTIONS_VERSION_MAX = 11


# A topic that was made again has another id, which metadata tells as it tells a leader.
_LEADER_UNKNOWN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


class Producer:
    """An async context manager. One event loop owns it; see `blocking` for threads."""

    def __init__(self, settings: ClientSettings | Cluster, producer: ProducerSettings | None = None) -> None:
        self.settings = producer or ProducerSettings()
        self._owned = isinstance(settings, ClientSettings)
        self._cluster = Cluster(settings) if isinstance(settings, ClientSettings) else settings
        self._partitioner: Partitioner = self.settings.partitioner or StickyPartitioner()
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._identity = ProducerIdentity()
        self._transactions = TransactionManager(self._cluster, self.settings, self._identity)
        self._unfinished: set[ProducerBatch] = set()
        self._buffered = 0
        self._room = asyncio.Event()
        self._room.set()
        self._wake = asyncio.Event()
        self._turns = Turns()
        self._flushing = 0
        self._requests: dict[int, int] = defaultdict(int)
        self._sender: asyncio.Task[None] | None = None
        self._closed = False
        self._answers: set[asyncio.Task[None]] = set()
        self._fresh_until = 0.0
        self.measures = ProducerMeasures()
        self._recent = Recent(self.measures, self._cluster.measures)

    def metrics(self) -> dict[str, float]:
        """Recent rates and averages under Kafka's names; `measures` has the sums behind them."""
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
        """Puts a record into a batch, waiting for room in the buffer; await the result to know the offset."""
        if (info := self._ready(topic)) is not None:
            return self._append(info, value, key, headers, partition, timestamp_ms)
        async with self._turns.turn(topic):
            return self._append(await self._prepare(topic), value, key, headers, partition, timestamp_ms)

    async def send_and_wait(self, topic: str, value: bytes | None = None, key: bytes | None = None) -> RecordMetadata:
        return await (await self.send(topic, value, key))

    async def send_encoded(self, one: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        """Puts a whole batch of records that are encoded already behind what was sent to its partition before."""
        if self._ready(one.topic) is not None:
            return self._append_encoded(one, records)
        async with self._turns.turn(one.topic):
            await self._prepare(one.topic)
            return self._append_encoded(one, records)

    def _append_encoded(self, one: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        self._transactions.check_open()
        queue = self._queues.setdefault(one, PartitionQueue())
        batch = self._next_batch(one, queue)
        batch.fill(records)
        self._buffered += batch.buffered
        if self._buffered >= self.settings.buffer_bytes:
            self._room.clear()
        self._close_batch(queue)
        return batch.done

    async def flush(self) -> None:
        """Waits until everything sent so far is acknowledged or has failed; failures are the deliveries' business."""
        self._flushing += 1
        self._wake.set()
        try:
            await self._turns.passed()
            if self._unfinished:
                await asyncio.wait([batch.done for batch in self._unfinished])
        finally:
            self._flushing -= 1

    async def close(self) -> None:
        """Sends what is left, then ends."""
        if self._closed:
            return
        try:
            await self.flush()
        finally:
            self._closed = True
            if self._sender is not None:
                self._sender.cancel()
                await asyncio.gather(self._sender, return_exceptions=True)
            self._fail_all(ClientClosed("The producer was closed."))
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
        """Fences older producers of the same transactional id, and ends what they left open."""
        await self._transactions.init()

    async def renew_transactions(self) -> None:
        """Begins anew after a failure, with a higher epoch; raises PRODUCER_FENCED where somebody else has the id."""
        self._fail_all(ClientError("The transaction was given up."))
        await self.flush()
        await self._transactions.init(continuing=True)

    def begin_transaction(self) -> None:
        self._transactions.begin()

    def share_transaction(self) -> tuple[int, int]:
        """The producer id and epoch with which other processes may `join_transaction`; ending it stays here."""
        return self._transactions.share()

    def join_transaction(self, producer_id: int, epoch: int) -> None:
        """Writes in the transaction of another process with the same transactional id, which will end it.

        Of all who write in one transaction, each partition must be written by one alone: sequence numbers begin at 0.
        """
        self._transactions.join(producer_id, epoch)

    async def transactions_raise_epoch(self) -> bool:
        """Whether the end of a transaction gives the next one an epoch of its own (KIP-890)."""
        return self._transactions.adds_by_itself(await self._cluster.any_connection())

    async def send_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset], **member: Any
    ) -> None:
        """Commits a group's offsets as part of the transaction; `member` names generation, member and instance."""
        await self._transactions.send_offsets(group_id, offsets, **member)

    async def commit_transaction(self) -> None:
        await self.flush()
        await self._transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Drops what has not left, and marks what has as never to be seen."""
        self._fail_all(ClientError("The transaction was aborted."))
        await self.flush()
        await self._transactions.end(commit=False)

    # Inside.

    def _ready(self, topic: str) -> TopicInfo | None:
        """The topic, where a record for it need not wait for anything."""
        info = self._cluster.metadata.topics.get(topic)
        if info is None or info.error is not None or self._sender is None or not self._room.is_set():
            return None
        return None if self._turns.has_line(topic) else info

    async def _prepare(self, topic: str) -> TopicInfo:
        if self._closed:
            raise ClientClosed("The producer is closed.")
        info = await self._cluster.topic(topic, create=True)
        if self.settings.uses_sequences and not self._identity.known:
            await self._identify()
        if self._sender is None:
            self._sender = asyncio.ensure_future(self._run())
        while not self._room.is_set():
            await self._room.wait()
        return info

    async def _identify(self) -> None:
        if self.settings.transactional_id is not None:
            raise ClientError("A transactional producer begins with init_transactions().")
        await ask_identity(self._cluster, self._identity, timeout_ms=self.settings.request_timeout_ms)

    def _append(
        self,
        info: TopicInfo,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Delivery:
        if self._closed:
            raise ClientClosed("The producer is closed.")
        size = size_at_most(key, value, headers)
        if size > self.settings.request_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is larger than a request may be.")
        if partition is None:
            partition = self._partitioner(key, info.partitions)
        elif partition not in info.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {info.name}-{partition}.")
        one = TopicPartition(info.name, partition)
        self._transactions.check_open()
        queue = self._queues.get(one) or self._queues.setdefault(one, PartitionQueue())
        batch = queue.open
        if batch is None or not batch.has_room(size):
            batch = self._next_batch(one, queue)
        timestamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        index = batch.append(key, value, headers, timestamp)
        self._buffered += size
        batch.buffered += size
        if self._buffered >= self.settings.buffer_bytes:
            self._room.clear()
            self._wake.set()
        if not batch.has_room(1):
            self._close_batch(queue)
        return Delivery(batch, index, timestamp)

    def _next_batch(self, one: TopicPartition, queue: PartitionQueue) -> ProducerBatch:
        if queue.open is not None:
            self._close_batch(queue)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[int, int]] = loop.create_future()
        # Nobody has to look at a delivery: a failure that is not looked at is not an error of its own.
        done.add_done_callback(looked_at)
        settings = self.settings
        batch = queue.open = ProducerBatch(
            one,
            limit=settings.batch_size,
            codec=settings.compression,
            level=settings.compression_level,
            created=loop.time(),
            done=done,
        )
        self._unfinished.add(batch)
        self._wake.set()
        return batch

    def _close_batch(self, queue: PartitionQueue) -> None:
        assert queue.open is not None
        queue.closed.append(queue.open)
        queue.open = None
        self._wake.set()
        if isinstance(self._partitioner, StickyPartitioner):
            self._partitioner.next_batch()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                pause = await self._drain(loop.time())
            except (ClientError, KafkaError) as error:
                # What nothing of this producer can go without, such as a producer id, cannot be had.
                self._fail_all(error)
                pause = None
            if self._wake.is_set():
                self._wake.clear()
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def _drain(self, now: float) -> float | None:
        """Sends what is ready; seconds until something else will be, None where nothing waits."""
        if self.settings.uses_sequences and not self._identity.known:
            await self._identify()
        self._stay_fresh(now)
        linger = 0.0 if self._flushing or not self._room.is_set() else self.settings.linger_ms / 1000
        pause: float | None = None
        ready: dict[int, list[ProducerBatch]] = defaultdict(list)
        homeless: set[str] = set()
        for one, queue in self._queues.items():
            batch = queue.open
            if batch is not None and not queue.closed:
                wait = batch.created + linger - now
                if wait <= 0:
                    self._close_batch(queue)
                else:
                    pause = wait if pause is None else min(pause, wait)
            if not queue.closed or queue.must_wait(self._identity.producer_id):
                continue
            first = queue.closed[0]
            if first.created + self.settings.delivery_timeout_ms / 1000 < now:
                queue.closed.popleft()
                self._finish(first, TimedOut(first.complaint))
                continue
            if first.retry_at > now:
                pause = first.retry_at - now if pause is None else min(pause, first.retry_at - now)
                continue
            leader = self._cluster.metadata.leader_of(*one)
            if leader < 0:
                homeless.add(one.topic)
            elif self._requests[leader] < self.settings.in_flight_max:
                ready[leader].append(first)
        for node_id, batches in ready.items():
            await self._send(node_id, batches)
        if homeless:
            await self._learn(homeless)
            pause = 0.1 if pause is None else min(pause, 0.1)
        return 0.0 if ready and pause is not None and pause < 0 else pause

    def _stay_fresh(self, now: float) -> None:
        """Now and then topics are asked for again, or new partitions would never get a record."""
        if self._fresh_until and now >= self._fresh_until:
            task = asyncio.ensure_future(self._learn({one.topic for one in self._queues}))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        if now >= self._fresh_until:
            self._fresh_until = now + self._cluster.settings.metadata_age_max_ms / 1000

    async def _learn(self, topics: set[str]) -> None:
        try:
            await self._cluster.refresh(sorted(topics))
        except (ClientError, KafkaError):
            # The batches' own deadline decides when to give up.
            return

    async def _send(self, node_id: int, batches: list[ProducerBatch]) -> None:
        try:
            connection = await self._cluster.node_connection(node_id, "produce")
            await self._transactions.add_partitions([batch.partition for batch in batches])
        except (ConnectionLost, KafkaError) as error:
            for batch in batches:
                self._again_or_fail(batch, error, taken=False)
            return
        taken: list[ProducerBatch] = []
        size = 0
        for batch in batches:
            queue = self._queues[batch.partition]
            if taken and size + batch.size > self.settings.request_bytes_max:
                self._wake.set()
                break
            queue.closed.popleft()
            queue.in_flight += 1
            queue.retrying = False
            taken.append(batch)
            size += batch.size
            if len(queue.closed):
                self._wake.set()
        self._requests[node_id] += 1
        task = asyncio.ensure_future(self._deliver(node_id, connection, taken))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _deliver(self, node_id: int, connection: Connection, batches: list[ProducerBatch]) -> None:
        try:
            response = await self._post(connection, batches)
        except (ConnectionLost, ClientError) as error:
            for batch in batches:
                self._landed(batch, error)
            self._cluster.metadata.topics.pop(batches[0].partition.topic, None)
            await self._learn({batch.partition.topic for batch in batches})
        else:
            answers = {} if response is None else answers_by_partition(response, self._cluster.metadata.names)
            for batch in batches:
                self._landed(batch, answers.get(batch.partition))
        finally:
            self._requests[node_id] -= 1
            self._wake.set()

    async def _post(self, connection: Connection, batches: list[ProducerBatch]) -> ProduceResponse | None:
        now = asyncio.get_running_loop().time
        measures, sent = self.measures, now()
        for batch in batches:
            if self.settings.uses_sequences and batch.producer_id < 0:
                batch.producer_id, batch.epoch = self._identity.producer_id, self._identity.epoch
                batch.base_sequence = self._identity.take(batch.partition, batch.count)
            measures.queue_seconds += sent - batch.created
        request, version_max = produce_request(batches, self.settings, self._cluster.metadata)
        measures.batches += len(batches)
        measures.batch_bytes += sum(len(one.records or b"") for t in request.topic_data for one in t.partition_data)
        if self.settings.transactional_id is not None and not self._transactions.adds_by_itself(connection):
            version_max = min(version_max, _OLD_TRANSACTIONS_VERSION_MAX)
        response: ProduceResponse | None = await connection.post(
            request,
            timeout_ms=self.settings.request_timeout_ms,
            version_max=version_max,
            answered=self.settings.acks != 0,
        )
        measures.produce_requests += 1
        measures.produce_seconds += now() - sent
        return response

    def _landed(self, batch: ProducerBatch, answer: PartitionProduceResponse | ClientError | None) -> None:
        """What became of a batch that was in flight."""
        queue = self._queues[batch.partition]
        queue.in_flight -= 1
        if answer is None:
            if self.settings.acks == 0:
                self._finish(batch, (-1, -1))
            else:
                self._again_or_fail(batch, KafkaError(ErrorCode.NETWORK_EXCEPTION, "The answer left the batch out."))
            return
        if isinstance(answer, ClientError):
            self._again_or_fail(batch, answer)
            return
        error = error_of(answer.error_code, answer.error_message)
        if error is None or error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.measures.duplicate_records += 0 if error is None else batch.count
            queue.known_producer_id = batch.producer_id
            self._finish(batch, (answer.base_offset, answer.log_append_time_ms))
        else:
            if error.code in _LEADER_UNKNOWN:
                self._cluster.metadata.forget_leader(batch.partition)
            self._again_or_fail(batch, error)

    def _again_or_fail(self, batch: ProducerBatch, error: ClientError | KafkaError, *, taken: bool = True) -> None:
        queue = self._queues[batch.partition]
        now = asyncio.get_running_loop().time()
        in_time = now - batch.created < self.settings.delivery_timeout_ms / 1000
        if queue.may_repeat(error) and in_time and batch.attempts < self.settings.retries:
            batch.attempts += 1
            batch.last_error = error
            self.measures.retried_records += batch.count
            batch.retry_at = now + self._cluster.settings.backoff_ms(batch.attempts) / 1000
            if taken:
                queue.put_back(batch)
            if not isinstance(error, KafkaError) or not taken:
                self._cluster.metadata.forget_leader(batch.partition)
            self._wake.set()
            return
        if not taken:
            queue.closed.remove(batch)
        self._finish(batch, error)

    def _finish(self, batch: ProducerBatch, outcome: tuple[int, int] | Exception) -> None:
        self._unfinished.discard(batch)
        self._buffered -= batch.buffered
        if self._buffered < self.settings.buffer_bytes:
            self._room.set()
        if batch.done.done():
            return
        if isinstance(outcome, Exception):
            self.measures.failed_records += batch.count
            batch.done.set_exception(outcome)
            self._transactions.on_failure(outcome)
            if self.settings.transactional_id is None and batch.base_sequence >= 0:
                self._begin_anew()
        else:
            self.measures.records += batch.count
            batch.done.set_result(outcome)

    def _begin_anew(self) -> None:
        """After a lost batch, sequence numbers would have a hole: a new producer id begins without one."""
        self._identity.forget()
        for queue in self._queues.values():
            for batch in queue.closed:
                batch.producer_id = batch.epoch = batch.base_sequence = -1

    def _fail_all(self, error: Exception) -> None:
        for queue in self._queues.values():
            for batch in queue.take_all():
                self._finish(batch, error)
