"""Clients for code without an event loop: a thread runs the loop, and every call waits for its result.

    with BlockingProducer(settings) as producer:
        producer.send("topic", b"value").result()

They are thin wrappers: every method calls the method of the same name of an asyncio client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.blocking_producer import BlockingProducer
from ottla.client.consumer import ConsumedBatch, ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.loop_thread import Blocking, LoopThread, made
from ottla.client.settings import ClientSettings
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    pass

__all__ = ["BlockingAdmin", "BlockingConsumer", "BlockingProducer", "LoopThread"]

T = TypeVar("T")


class BlockingAdmin(Blocking):
    """`admin.topics.names()` waits for the call of the same name of `AdminClient`; so does every other call.

    `admin.call(lambda admin: admin.topics.names())` does the same with the types of `AdminClient`.
    """

    def __init__(self, settings: ClientSettings | Mapping[str, Any]) -> None:
        super().__init__()
        self._admin = self._made(lambda: AdminClient(settings))

    def __getattr__(self, name: str) -> Any:
        return _BlockingArea(self._thread, getattr(self._admin, name))

    def call(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await work(self._admin)

        return self._thread.call(whole())

    async def _close(self) -> None:
        await self._admin.close()


class _BlockingArea:
    """An area of an admin client, whose methods wait for their results."""

    def __init__(self, thread: LoopThread, area: Any) -> None:
        self._thread = thread
        self._area = area

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._area, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return self._thread.call(method(*arguments, **options))

        return call


class BlockingConsumer(Blocking):
    def __init__(self, settings: ClientSettings | Mapping[str, Any], consumer: ConsumerSettings | None = None) -> None:
        super().__init__()
        self._consumer = self._made(lambda: Consumer(settings, consumer))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._thread.call(self._consumer.assign(partitions))

    def subscribe(self, topics: Iterable[str] = (), *, pattern: str | None = None) -> None:
        self._thread.call(self._consumer.subscribe(topics, pattern=pattern))

    def poll(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> list[ConsumedRecord]:
        return self._thread.call(self._consumer.poll(timeout_ms, max_records=max_records))

    def batches(self, timeout_ms: int = 1_000) -> list[ConsumedBatch]:
        return self._thread.call(self._consumer.batches(timeout_ms))

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        self._thread.call(made(lambda: self._consumer.seek(partition, offset, leader_epoch=leader_epoch)))

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
