"""`RetryingConsumer`: records that fail go to retry topics, and at last to a dead-letter topic.

A failed record is sent to the first retry topic, acknowledged, and only then committed, so no record is skipped and no
other record waits for it. A record in a retry topic is handled again after the delay of that topic. A record that fails
there goes to the next topic, and from the last one to the dead-letter topic.

The number of attempts of a record follows from its topic alone. Headers repeat it for people, and are never read: any
client that may write to the topic could set them. Headers of these names on records of the source topic are dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.errors import ClientError
from ottla.client.parallel import NO_MEMBER, Handler
from ottla.client.producer import Producer
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["HEADER_PREFIX", "RetryTopics", "RetryingConsumer"]

HEADER_PREFIX = "ottla.retry."
POLL_MS = 500
_ERROR_LENGTH_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTopics:
    """The retry topics of one source topic, as one group uses them: other groups have retries of their own."""

    source: str
    group: str
    # The delay before each retry.
    delays_ms: tuple[int, ...] = (1_000, 10_000, 60_000)

    @property
    def retries(self) -> tuple[str, ...]:
        return tuple(f"{self.source}-{self.group}-retry-{number + 1}" for number in range(len(self.delays_ms)))

    @property
    def dead_letters(self) -> str:
        return f"{self.source}-{self.group}-dead-letters"

    @property
    def all(self) -> tuple[str, ...]:
        """All topics, for their creation."""
        return (*self.retries, self.dead_letters)

    def attempts(self, topic: str) -> int:
        """The number of earlier attempts of a record of the topic."""
        return self.retries.index(topic) + 1 if topic in self.retries else 0

    def next_topic(self, topic: str) -> str:
        """The topic to which a failed record of the topic is sent."""
        attempts = self.attempts(topic)
        return self.retries[attempts] if attempts < len(self.retries) else self.dead_letters

    def delay_ms(self, topic: str) -> int:
        attempts = self.attempts(topic)
        return self.delays_ms[attempts - 1] if attempts else 0


class RetryingConsumer:
    """Reads the source topic and its retry topics. Runs until `stop`."""

    def __init__(self, consumer: Consumer, producer: Producer, topics: RetryTopics, handle: Handler) -> None:
        if consumer.settings.auto_commit:
            raise ClientError("A retrying consumer commits what is done: set enable.auto.commit to false.")
        self._consumer = consumer
        self._producer = producer
        self._topics = topics
        self._handle = handle
        # Partitions whose first record is not due, and the time when it is, by the clock of the loop.
        self._asleep: dict[TopicPartition, float] = {}
        # The offset of the last record that was not due, and when it was seen first.
        self._first_seen: dict[TopicPartition, tuple[int, float]] = {}
        self._stopped = False

    async def subscribe(self) -> None:
        await self._consumer.subscribe([self._topics.source, *self._topics.retries])

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        while not self._stopped:
            await self.run_once()

    async def run_once(self, timeout_ms: int = POLL_MS) -> int:
        """Polls once; returns the number of records that were handled or sent on."""
        self._wake()
        done: dict[TopicPartition, int] = {}
        slept: set[TopicPartition] = set()
        count = 0
        records = await self._consumer.poll(self._poll_ms(timeout_ms))
        for index, record in enumerate(records):
            partition = TopicPartition(record.topic, record.partition)
            if partition in slept:
                continue
            # A rebalance inside the poll may have ended the pause of a partition that sleeps.
            self._asleep.pop(partition, None)
            if self._sleeps(partition, record):
                slept.add(partition)
                continue
            try:
                await self._process(record)
            except BaseException:
                self._go_back([record for record in records[index:] if (record.topic, record.partition) not in slept])
                raise
            done[partition] = record.offset + 1
            count += 1
        if done:
            await self._commit(done)
        return count

    async def _commit(self, done: dict[TopicPartition, int]) -> None:
        try:
            await self._consumer.commit(done)
        except KafkaError as error:
            if error.code not in NO_MEMBER:
                raise
            # The next poll joins again. What is not committed is handled again, by this or another member.

    def _go_back(self, records: Sequence[ConsumedRecord]) -> None:
        """Seeks back to unhandled records: a later run polls them again, and commits none of them before."""
        assigned = set(self._consumer.assignment)
        for record in reversed(records):
            partition = TopicPartition(record.topic, record.partition)
            if partition in assigned:
                self._consumer.seek(partition, record.offset, leader_epoch=record.leader_epoch)

    async def _process(self, record: ConsumedRecord) -> None:
        try:
            await self._handle(record)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 (the record carries it on)
            await self._send_on(record, error)

    async def _send_on(self, record: ConsumedRecord, error: Exception) -> None:
        topic = self._topics.next_topic(record.topic)
        await self._producer.send_and_wait(topic, record.value, record.key, headers=self._headers(record, error))

    def _headers(self, record: ConsumedRecord, error: Exception) -> Sequence[tuple[str, bytes | None]]:
        own = [(name, content) for name, content in record.headers if not name.startswith(HEADER_PREFIX)]
        position = f"{record.topic}-{record.partition}@{record.offset}"
        details = {
            "attempts": str(self._topics.attempts(record.topic) + 1),
            "from": position,
            "error": f"{type(error).__name__}: {error}"[:_ERROR_LENGTH_MAX],
        }
        return [*own, *((HEADER_PREFIX + name, text.encode()) for name, text in details.items())]

    def _sleeps(self, partition: TopicPartition, record: ConsumedRecord) -> bool:
        """Puts the partition of a record that is not due to sleep; the record is polled again later."""
        delay_ms = self._topics.delay_ms(record.topic)
        now_ms = time.time() * 1000
        if not delay_ms:
            return False
        # A timestamp in the future, which anyone may write, does not make the delay longer.
        offset, seen_ms = self._first_seen.get(partition, (-1, 0.0))
        if offset != record.offset:
            seen_ms = now_ms
            self._first_seen[partition] = (record.offset, now_ms)
        left_ms = min(record.timestamp, seen_ms) + delay_ms - now_ms
        if left_ms <= 0:
            return False
        self._asleep[partition] = asyncio.get_running_loop().time() + left_ms / 1000
        self._consumer.seek(partition, record.offset, leader_epoch=record.leader_epoch)
        self._consumer.pause(partition)
        return True

    def _wake(self) -> None:
        now = asyncio.get_running_loop().time()
        assigned = set(self._consumer.assignment)
        for partition, until in list(self._asleep.items()):
            if partition not in assigned:
                del self._asleep[partition]
            elif until <= now:
                del self._asleep[partition]
                self._consumer.resume(partition)

    def _poll_ms(self, timeout_ms: int) -> int:
        if not self._asleep:
            return timeout_ms
        left_ms = (min(self._asleep.values()) - asyncio.get_running_loop().time()) * 1000
        return max(min(timeout_ms, int(left_ms) + 1), 0)
