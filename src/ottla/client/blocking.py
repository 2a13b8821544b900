"""Clients for code without an event loop: a thread runs the loop, and every call waits for its result.

    with BlockingProducer(settings) as producer:
        producer.send("topic", b"value").result()

They are thin wrappers: every method calls the method of the same name of an asyncio client.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.consumer import ConsumedBatch, ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.producer import Producer, ProducerSettings, RecordMetadata
from ottla.client.settings import ClientSettings
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["BlockingAdmin", "BlockingConsumer", "BlockingProducer", "LoopThread"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-client", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # An interrupted caller (Ctrl-C) gets no result, so the call is cancelled: its records must not be lost.
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Blocking:
    def __init__(self) -> None:
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for calls in progress, then ends the thread."""
        try:
            self._thread.call(self._close())
        finally:
            self._thread.close()

    async def _close(self) -> None:
        raise NotImplementedError


class BlockingAdmin(_Blocking):
    """`admin.call(lambda admin: admin.topics.names())` waits for any call of `AdminClient`."""

    def __init__(self, settings: ClientSettings) -> None:
        super().__init__()
        self._admin = self._thread.call(_made(lambda: AdminClient(settings)))

    def call(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await work(self._admin)

        return self._thread.call(whole())

    async def _close(self) -> None:
        await self._admin.close()


class BlockingProducer(_Blocking):
    def __init__(self, settings: ClientSettings, producer: ProducerSettings | None = None) -> None:
        super().__init__()
        self._producer = self._thread.call(_made(lambda: Producer(settings, producer)))

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Future[RecordMetadata]:
        """A future of the record's metadata; `result()` waits for it."""

        async def whole() -> RecordMetadata:
            delivery = await self._producer.send(
                topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
            )
            return await delivery

        return self._thread.submit(whole())

    def flush(self) -> None:
        self._thread.call(self._producer.flush())

    def init_transactions(self) -> None:
        self._thread.call(self._producer.init_transactions())

    def begin_transaction(self) -> None:
        self._thread.call(_made(self._producer.begin_transaction))

    def send_offsets(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        self._thread.call(self._producer.send_offsets(group_id, offsets))

    def commit_transaction(self) -> None:
        self._thread.call(self._producer.commit_transaction())

    def abort_transaction(self) -> None:
        self._thread.call(self._producer.abort_transaction())

    async def _close(self) -> None:
        await self._producer.close()


class BlockingConsumer(_Blocking):
    def __init__(self, settings: ClientSettings, consumer: ConsumerSettings | None = None) -> None:
        super().__init__()
        self._consumer = self._thread.call(_made(lambda: Consumer(settings, consumer)))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._thread.call(self._consumer.assign(partitions))

    def subscribe(self, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        self._thread.call(self._consumer.subscribe(topics, pattern=pattern))

    def poll(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> list[ConsumedRecord]:
        return self._thread.call(self._consumer.poll(timeout_ms, max_records=max_records))

    def batches(self, timeout_ms: int = 1_000) -> list[ConsumedBatch]:
        return self._thread.call(self._consumer.batches(timeout_ms))

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        self._thread.call(_made(lambda: self._consumer.seek(partition, offset, leader_epoch=leader_epoch)))

    def position(self, partition: TopicPartition) -> int:
        return self._consumer.position(partition)

    def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        self._thread.call(self._consumer.commit(offsets))

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        return self._thread.call(self._consumer.committed(partitions))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._thread.call(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._thread.call(self._consumer.end_offsets(partitions))

    async def _close(self) -> None:
        await self._consumer.close()


async def _made(make: Callable[[], T]) -> T:
    """Calls a quick function on the thread of the loop, where clients must be made and used."""
    return make()
