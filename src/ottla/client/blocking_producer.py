"""`BlockingProducer`: a producer for code without an event loop, shared by any number of threads.

A send puts the record in a queue; one task of the loop takes it from there to the producer. So the loop is woken once
for many records, and the records of a thread keep their order. A send waits while the queue is long, which it is when
the buffer of the producer is full.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.client.admin.groups import CommittedOffset
from ottla.client.errors import BufferExhausted, ClientClosed
from ottla.client.loop_thread import Blocking, call_on_loop
from ottla.client.producer import OnDelivery, PreparedTransaction, Producer, ProducerSettings, RecordMetadata
from ottla.client.settings import ClientSettings
from ottla.model.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from ottla.client.columns.sending import WrittenBatch

__all__ = ["BlockingProducer", "DeliveryFuture"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Records that wait for the loop; sends wait while there are more.
_QUEUE_MAX = 5_000
# The loop does other work after this many records.
_RECORDS_AT_ONCE = 500


# Guards the events of all futures: they are made only for callers that wait.
_waiting_lock = threading.Lock()


class DeliveryFuture:
    """The result of a send, for threads: `result()` waits for it."""

    __slots__ = ("_event", "_outcome")

    def __init__(self) -> None:
        self._outcome: RecordMetadata | Exception | None = None
        self._event: threading.Event | None = None

    def done(self) -> bool:
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The position of the record. Raises its error, or TimeoutError after `timeout` seconds."""
        outcome = self._wait(timeout)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def exception(self, timeout: float | None = None) -> Exception | None:
        outcome = self._wait(timeout)
        return outcome if isinstance(outcome, Exception) else None

    def set(self, outcome: RecordMetadata | Exception) -> None:
        with _waiting_lock:
            self._outcome, event = outcome, self._event
        if event is not None:
            event.set()

    def _wait(self, timeout: float | None) -> RecordMetadata | Exception:
        if self._outcome is None:
            with _waiting_lock:
                if self._outcome is None and self._event is None:
                    self._event = threading.Event()
                event = self._event
            if event is not None and not event.wait(timeout):
                raise TimeoutError(f"The record was not acknowledged within {timeout} seconds.")
        assert self._outcome is not None
        return self._outcome


class _Waiting(NamedTuple):
    topic: str
    value: Any
    key: Any
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None
    timestamp_ms: int | None
    on_delivery: OnDelivery | None
    future: DeliveryFuture
    # By the clock of the loop.
    asked_at: float


class BlockingProducer(Blocking):
    def __init__(self, settings: ClientSettings | Mapping[str, Any], producer: ProducerSettings | None = None) -> None:
        super().__init__()
        self._producer = self._make_client(lambda: Producer(settings, producer))
        # Records, and the events of flushes, which wait for the records before them.
        self._queue: deque[_Waiting | asyncio.Event] = deque()
        self._room = threading.Condition()
        self._draining: asyncio.Task[None] | None = None
        self._is_woken = False
        self._closed = False

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> DeliveryFuture:
        """A future of the record's metadata; `result()` waits for it. `on_delivery` runs on the thread of the loop."""
        future = DeliveryFuture()
        asked_at = self._thread.time()
        waiting = _Waiting(topic, value, key, headers, partition, timestamp_ms, on_delivery, future, asked_at)
        with self._room:
            if len(self._queue) >= _QUEUE_MAX and not self._thread.is_current:
                limit = self._producer.settings.max_block_ms / 1000
                if not self._room.wait_for(lambda: len(self._queue) < _QUEUE_MAX or self._closed, limit):
                    raise BufferExhausted(f"{topic}: the buffer had no room for {limit} seconds.")
            if self._closed:
                raise ClientClosed("The producer is closed.")
            self._queue.append(waiting)
            wakes, self._is_woken = not self._is_woken, True
        if wakes:
            self._thread.call_soon(self._wake)
        return future

    def send_table(self, topic: str, table: Any) -> list[WrittenBatch]:
        """Sends a table and waits for its acknowledgement."""

        async def whole() -> list[WrittenBatch]:
            await self._taken()
            return await (await self._producer.send_table(topic, table))

        return self._thread.call(whole())

    def flush(self) -> None:
        self._thread.call(self._flush())

    def client_instance_id(self, timeout_ms: int = 30_000) -> Uuid:
        return self._thread.call(self._producer.client_instance_id(timeout_ms))

    def metrics(self) -> dict[str, float]:
        return self._producer.metrics()

    def partitions(self, topic: str) -> int:
        return self._thread.call(self._producer.partitions(topic))

    def init_transactions(self, *, keep_prepared: bool = False) -> None:
        self._thread.call(self._producer.init_transactions(keep_prepared=keep_prepared))

    def prepare_transaction(self) -> PreparedTransaction:
        return self._thread.call(self._in_order(self._producer.prepare_transaction))

    def complete_transaction(self, decided: PreparedTransaction) -> None:
        self._thread.call(self._producer.complete_transaction(decided))

    def begin_transaction(self) -> None:
        self._thread.call(call_on_loop(self._producer.begin_transaction))

    def send_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset], **member: Any
    ) -> None:
        self._thread.call(self._producer.send_offsets(group_id, offsets, **member))

    def commit_transaction(self) -> None:
        self._thread.call(self._in_order(self._producer.commit_transaction))

    def abort_transaction(self) -> None:
        self._thread.call(self._in_order(self._producer.abort_transaction))

    # On the thread of the loop.

    def _wake(self) -> None:
        if self._draining is None or self._draining.done():
            self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        taken = 0
        while True:
            with self._room:
                if not self._queue:
                    self._is_woken = False
                    return
                waiting = self._queue.popleft()
                if len(self._queue) == _QUEUE_MAX // 2:
                    self._room.notify_all()
            if isinstance(waiting, asyncio.Event):
                waiting.set()
                continue
            await self._send(waiting)
            taken += 1
            if taken % _RECORDS_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _send(self, waiting: _Waiting) -> None:
        future, on_delivery = waiting.future, waiting.on_delivery

        def done(metadata: RecordMetadata, error: Exception | None) -> None:
            future.set(metadata if error is None else error)
            if on_delivery is None:
                return
            try:
                on_delivery(metadata, error)
            except Exception:
                # A failing callback must not end the task that takes the other records.
                logger.exception("The delivery callback of a record of %s failed.", metadata.topic)

        try:
            await self._producer.send(
                waiting.topic,
                waiting.value,
                waiting.key,
                headers=waiting.headers,
                partition=waiting.partition,
                timestamp_ms=waiting.timestamp_ms,
                on_delivery=done,
                asked_at=waiting.asked_at,
            )
        except Exception as error:  # noqa: BLE001 (the future has it)
            # An application that commits need not look at every future.
            self._producer.spoil_transaction(error)
            done(RecordMetadata(waiting.topic, -1 if waiting.partition is None else waiting.partition, -1, -1), error)
        except BaseException:
            future.set(ClientClosed("The producer was closed before the record was sent."))
            raise

    async def _flush(self) -> None:
        await self._taken()
        await self._producer.flush()

    async def _in_order(self, end: Callable[[], Awaitable[T]]) -> T:
        """Ends a transaction after the records that were sent before."""
        await self._taken()
        return await end()

    async def _taken(self) -> None:
        """Returns when the records that wait at this moment are with the producer."""
        passed = asyncio.Event()
        with self._room:
            self._queue.append(passed)
            self._is_woken = True
        self._wake()
        await passed.wait()

    async def _close(self) -> None:
        with self._room:
            self._closed = True
            self._room.notify_all()
        await self._taken()
        await self._producer.close()
