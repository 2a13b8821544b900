"""Sends batches to brokers, and retries them.

One task drains ready batches: a request for each broker with at most one batch of each partition, up to five requests
in flight for each broker. While a batch of a partition waits for its retry, no later batch of that partition is sent,
and batches that were in flight behind it return to their places: this keeps order and sequence numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, ClusterUnreachable, ConnectionLost, TimedOut, error_of
from ottla.client.measures import ProducerMeasures
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.requests import answers_by_partition, produce_request
from ottla.client.producer.sequences import ProducerIdentity, ask_identity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.splitting import may_split, proves_unwritten, too_large
from ottla.client.producer.transactions import TransactionManager
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

__all__ = ["Sender"]

logger = logging.getLogger(__name__)

# Transactions of the old protocol may not use the versions that add partitions by themselves (KIP-890).
_OLD_TRANSACTIONS_VERSION_MAX = 11

# Errors after which metadata is refreshed. A topic that was created again has a new topic id. A leader whose disk
# failed answers with an error until the producer finds the new leader.
_LEADER_UNKNOWN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
_OUT_OF_SEQUENCE = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        batches: Accumulator,
        identity: ProducerIdentity,
        transactions: TransactionManager,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._batches = batches
        self._identity = identity
        self._transactions = transactions
        self.measures = ProducerMeasures()
        # The number of waiting flushes; batches do not linger while a flush waits.
        self.flushing = 0
        # True while a transaction is aborted: a batch in flight is not retried, but its answer is awaited.
        self.gives_up = False
        self._requests: dict[int, int] = defaultdict(int)
        self._task: asyncio.Task[None] | None = None
        self.is_running = False
        self._answers: set[asyncio.Task[None]] = set()
        # Brokers to which a connection is being opened.
        self._opening: dict[int, asyncio.Task[None]] = {}
        # The search for leaders that are unknown.
        self._learning: asyncio.Task[None] | None = None
        self._fresh_until = 0.0
        self._stopped = False

    async def start(self) -> None:
        """Gets a producer id if necessary, and starts the sending task."""
        if self._settings.uses_sequences and not self._identity.known:
            await self._identify()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._on_ended)
            self.is_running = True

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """A defect has ended the task: records must not wait for ever, and the next send starts it again."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("The sender of a producer has failed.", exc_info=error)
        self._task, self.is_running = None, False
        self.fail_all(ClientError(f"The sender has failed: {error!r}"))

    async def stop(self) -> None:
        """Stops sending; batches in flight are not retried."""
        self._stopped = True
        own = [task for task in (self._task, self._learning) if task is not None]
        tasks = [*own, *self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def requests_in_flight(self) -> int:
        return sum(self._requests.values())

    def fail_all(self, error: Exception) -> None:
        """Fails all batches that are not in flight."""
        for batch in self._batches.take_all():
            self._finish(batch, error)

    async def _identify(self) -> None:
        if self._settings.transactional_id is not None:
            raise ClientError("A transactional producer begins with init_transactions().")
        await ask_identity(self._cluster, self._identity, timeout_ms=self._settings.request_timeout_ms)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                pause = await self._drain(loop.time())
            except (ClientError, KafkaError) as error:
                # A precondition of every batch, such as a producer id, is unavailable.
                self.fail_all(error)
                pause = None
            if self._batches.wake.is_set():
                self._batches.wake.clear()
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(pause):
                    await self._batches.wake.wait()
            except TimeoutError:
                pass
            self._batches.wake.clear()

    async def _drain(self, now: float) -> float | None:
        """Sends ready batches; returns the seconds until the next batch is ready, or None if there is none."""
        if self._settings.uses_sequences and not self._identity.known:
            await self._identify()
        self._stay_fresh(now)
        linger = 0.0 if self.flushing or self._batches.is_full else self._settings.linger_ms / 1000
        pause: float | None = None
        ready: dict[int, list[ProducerBatch]] = defaultdict(list)
        leaderless: set[str] = set()
        for partition, queue in self._batches.queues.items():
            batch = queue.open
            if batch is not None and not queue.closed:
                wait = batch.created + linger - now
                if wait <= 0:
                    self._batches.close_batch(queue)
                else:
                    pause = wait if pause is None else min(pause, wait)
            if not queue.closed or queue.must_wait(self._identity.pair):
                continue
            first = queue.closed[0]
            left = first.created + self._settings.delivery_timeout_ms / 1000 - now
            if left < 0:
                queue.closed.popleft()
                first.last_error = first.last_error or self._metadata_error(partition.topic)
                self._finish(first, TimedOut(first.complaint))
                # The next batches of the queue are examined in the next turn, which nothing else may begin.
                self._batches.wake.set()
                continue
            if first.retry_at > now:
                pause = first.retry_at - now if pause is None else min(pause, first.retry_at - now)
                continue
            leader = self._cluster.metadata.leader_of(*partition)
            if leader < 0:
                leaderless.add(partition.topic)
            elif queue.is_elsewhere(leader):
                # The next turn begins with the answer, or when the time of the batch is over.
                pause = left if pause is None else min(pause, left)
            elif self._requests[leader] < self._settings.in_flight_max and leader not in self._opening:
                ready[leader].append(first)
                if queue.open is not None:
                    # Otherwise the open batch would wait for the answer to the first one.
                    wait = max(queue.open.created + linger - now, 0.0)
                    pause = wait if pause is None else min(pause, wait)
            else:
                self._batches.stalled.setdefault(leader, now)
                pause = left if pause is None else min(pause, left)
        for node_id, batches in ready.items():
            if self._cluster.is_connected(node_id, "produce"):
                await self._send(node_id, batches)
            else:
                # A broker that does not answer must not delay the batches of other brokers.
                self._opening[node_id] = self._begin(self._open_and_send(node_id, batches))
        if leaderless:
            if self._learning is None or self._learning.done():
                # A cluster that does not answer must not delay the batches of other partitions, nor their time-outs.
                self._learning = self._begin(self._learn(leaderless))
            pause = 0.1 if pause is None else min(pause, 0.1)
        return 0.0 if ready and pause is not None and pause < 0 else pause

    def _stay_fresh(self, now: float) -> None:
        """Refreshes metadata periodically, so that new partitions get records."""
        if self._fresh_until and now >= self._fresh_until:
            self._forget_idle_topics(now)
            self._begin(self._learn({queue.topic for queue in self._batches.queues}))
        if now >= self._fresh_until:
            self._fresh_until = now + self._cluster.settings.metadata_age_max_ms / 1000

    def _forget_idle_topics(self, now: float) -> None:
        queues = self._batches.queues
        used_since = now - self._settings.metadata_idle_max_ms / 1000
        used = {
            partition.topic
            for partition, queue in queues.items()
            if queue.filled_at >= used_since or not queue.is_empty
        }
        for topic in {partition.topic for partition in queues} - used:
            # The sequence numbers stay in `ProducerIdentity`; the next record asks for metadata again.
            self._batches.forget_topic(topic)
            self._cluster.metadata.topics.pop(topic, None)

    def _metadata_error(self, topic: str) -> KafkaError | None:
        """The error of the topic's metadata, for a batch without a leader."""
        info = self._cluster.metadata.topics.get(topic)
        return None if info is None else info.error

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return task

    async def _open_and_send(self, node_id: int, batches: list[ProducerBatch]) -> None:
        try:
            await self._send(node_id, batches)
        except (ClientError, KafkaError) as error:
            # Retries cannot help, as with a refused login.
            self.fail_all(error)
        finally:
            self._opening.pop(node_id, None)
            self._batches.wake.set()

    async def _learn(self, topics: set[str]) -> None:
        try:
            await self._cluster.refresh(sorted(topics))
        except (ClientError, KafkaError):
            # The delivery time-out of the batches ends the retries.
            return

    async def _send(self, node_id: int, batches: list[ProducerBatch]) -> None:
        try:
            connection = await self._cluster.node_connection(node_id, "produce")
            await self._transactions.add_partitions([batch.partition for batch in batches])
        except (ClusterUnreachable, ConnectionLost, KafkaError, TimedOut) as error:
            for batch in self._still_first(node_id, batches):
                self._retry_or_fail(batch, error, taken=False)
            return
        taken: list[ProducerBatch] = []
        size = 0
        for batch in self._still_first(node_id, batches):
            queue = self._batches.queues[batch.partition]
            if taken and size + batch.size > self._settings.request_bytes_max:
                self._batches.wake.set()
                break
            queue.closed.popleft()
            queue.in_flight += 1
            queue.retrying = False
            self._number(batch)
            queue.sent_epoch = batch.epoch
            queue.sent_to = node_id
            taken.append(batch)
            size += batch.size
            if len(queue.closed):
                self._batches.wake.set()
        if not taken:
            return
        self._requests[node_id] += 1
        self._batches.stalled.pop(node_id, None)
        self._begin(self._deliver(node_id, connection, taken))

    def _still_first(self, node_id: int, batches: list[ProducerBatch]) -> list[ProducerBatch]:
        """The batches that are still first in their queues: older batches may have returned during a wait."""
        identity, first = self._identity, []
        for batch in batches:
            queue = self._batches.queues[batch.partition]
            waits = queue.must_wait(identity.pair) or queue.is_elsewhere(node_id)
            if queue.closed and queue.closed[0] is batch and not waits:
                first.append(batch)
        if self._settings.uses_sequences and not identity.known:
            first.clear()
        if len(first) < len(batches):
            self._batches.wake.set()
        return first

    def _number(self, batch: ProducerBatch) -> None:
        """Sets sequence numbers, which a batch keeps in retries, so that the leader recognises duplicates."""
        if self._settings.uses_sequences and batch.producer_id < 0:
            batch.producer_id, batch.epoch = self._identity.producer_id, self._identity.epoch
            batch.base_sequence = self._identity.take(batch.partition, batch.count)

    async def _deliver(self, node_id: int, connection: Connection, batches: list[ProducerBatch]) -> None:
        try:
            response = await self._post(connection, batches)
        except (ConnectionLost, ClientError) as error:
            for batch in batches:
                self._on_result(batch, error)
            self._cluster.metadata.topics.pop(batches[0].partition.topic, None)
            await self._learn({batch.partition.topic for batch in batches})
        except Exception as error:
            # A defect, such as a codec that fails: records must not wait for ever.
            logger.exception("A request of a producer has failed.")
            for batch in batches:
                self._on_result(batch, ClientError(f"The request has failed: {error!r}"))
        else:
            answers = {} if response is None else answers_by_partition(response, self._cluster.metadata.names)
            for batch in batches:
                self._on_result(batch, answers.get(batch.partition))
        finally:
            self._requests[node_id] -= 1
            self._batches.wake.set()

    async def _post(self, connection: Connection, batches: list[ProducerBatch]) -> ProduceResponse | None:
        if self._settings.acks == 0:
            # There is no response with acks=0, so only this wait bounds the bytes for a slow broker.
            await connection.drained(timeout_ms=self._settings.request_timeout_ms)
        now = asyncio.get_running_loop().time
        measures, sent = self.measures, now()
        for batch in batches:
            measures.queue_seconds += sent - batch.created
        request, version_max = produce_request(batches, self._settings, self._cluster.metadata)
        measures.batches += len(batches)
        measures.batch_bytes += sum(
            len(data.records or b"") for topic in request.topic_data for data in topic.partition_data
        )
        if self._settings.transactional_id is not None and not self._transactions.adds_by_itself(connection):
            version_max = min(version_max, _OLD_TRANSACTIONS_VERSION_MAX)
        response: ProduceResponse | None = await connection.post(
            request,
            timeout_ms=self._settings.request_timeout_ms,
            version_max=version_max,
            answered=self._settings.acks != 0,
        )
        measures.produce_requests += 1
        measures.produce_seconds += now() - sent
        return response

    def _on_result(self, batch: ProducerBatch, answer: PartitionProduceResponse | ClientError | None) -> None:
        """Processes the result of a batch that was in flight."""
        queue = self._batches.queues[batch.partition]
        queue.in_flight -= 1
        if answer is None:
            if self._settings.acks == 0:
                self._finish(batch, (-1, -1))
            else:
                self._retry_or_fail(batch, KafkaError(ErrorCode.NETWORK_EXCEPTION, "The answer left the batch out."))
            return
        if isinstance(answer, ClientError):
            self._retry_or_fail(batch, answer)
            return
        error = error_of(answer.error_code, answer.error_message)
        if error is None or error.code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.measures.duplicate_records += 0 if error is None else batch.count
            queue.known_producer_id = batch.producer_id
            self._finish(batch, (answer.base_offset, answer.log_append_time_ms))
        else:
            if error.code in _LEADER_UNKNOWN:
                self._cluster.metadata.forget_leader(batch.partition)
            self._retry_or_fail(batch, error)

    def _retry_or_fail(self, batch: ProducerBatch, error: ClientError | KafkaError, *, taken: bool = True) -> None:
        if isinstance(error, KafkaError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
            if taken and may_split(batch) and not self._stopped and not self.gives_up:
                self.measures.split_batches += 1
                self._batches.split(batch)
                return
            error = too_large(batch)
        queue = self._batches.queues[batch.partition]
        now = asyncio.get_running_loop().time()
        in_time = (
            not self._stopped and not self.gives_up and now - batch.created < self._settings.delivery_timeout_ms / 1000
        )
        may_repeat = self._resets_sequence(batch, error) or queue.may_repeat(error)
        if may_repeat and in_time and batch.attempts < self._settings.retries:
            batch.attempts += 1
            batch.last_error = error
            batch.may_be_written |= taken and not proves_unwritten(error)
            self.measures.retried_records += batch.count
            batch.retry_at = now + self._cluster.settings.backoff_ms(batch.attempts) / 1000
            if taken:
                queue.put_back(batch)
            if not isinstance(error, KafkaError) or not taken:
                self._cluster.metadata.forget_leader(batch.partition)
            self._batches.wake.set()
            return
        if not taken:
            queue.closed.remove(batch)
        self._finish(batch, error)

    def _finish(self, batch: ProducerBatch, outcome: tuple[int, int] | Exception) -> None:
        self._batches.forget(batch)
        # The caller may have cancelled its wait; the result matters nevertheless.
        waited_for = not batch.done.done()
        if isinstance(outcome, Exception):
            self.measures.failed_records += batch.count
            if waited_for:
                batch.done.set_exception(outcome)
            self._transactions.on_failure(outcome)
            if self._settings.transactional_id is None and batch.producer_id >= 0 and self._is_current(batch):
                # The failed batch leaves a gap in the sequence numbers.
                self._identity.raise_epoch()
        else:
            self.measures.records += batch.count
            if waited_for:
                batch.done.set_result(outcome)
        if batch.callbacks:
            batch.call_back(outcome)

    def _is_current(self, batch: ProducerBatch) -> bool:
        """True if a batch has the producer id and epoch that new batches get."""
        return batch.producer == self._identity.pair

    def _resets_sequence(self, batch: ProducerBatch, error: ClientError | KafkaError) -> bool:
        """True if a batch was refused for its sequence numbers: it is not in the log and gets new numbers.

        The previous batch has failed, or the leader has lost its producer state, as after an unclean election. Batches
        without a response keep their numbers, also with an old epoch, because they may be in the log.
        """
        if self._settings.transactional_id is not None or not self._settings.uses_sequences:
            return False
        if not isinstance(error, KafkaError):
            return False
        if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # An earlier batch got the new epoch and was written. The leader does not look for duplicates among batches
            # of an old epoch, so this error proves nothing about earlier attempts.
            if self._is_current(batch) or batch.may_be_written:
                return False
        elif error.code not in _OUT_OF_SEQUENCE:
            return False
        elif self._is_current(batch):
            if self._batches.queues[batch.partition].may_repeat(error):
                return False
            self._identity.raise_epoch()
        batch.producer_id = batch.epoch = batch.base_sequence = -1
        return True
