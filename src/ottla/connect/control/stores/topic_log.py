"""A compacted topic as a replicated map: every worker reads all of it, and a writer waits until it reads its record.

`send` returns when the brokers have acknowledged. `read_to_end` returns when all records that were in the topic at the
time of the call have gone through `on_record`. Together they give a worker its own writes and those of other workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.connect.api.config_definitions import ConfigError
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["TopicLog"]

logger = logging.getLogger(__name__)

_POLL_MS = 500
# As Kafka Connect's default; fewer where there are fewer brokers.
REPLICAS = 3


class TopicLog:
    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        on_record: Callable[[ConsumedRecord], None],
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        factor_setting: str = "replication.factor",
        topic_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self._settings = settings
        self._on_record = on_record
        self._partitions = partitions
        # None: three, or the number of brokers if there are fewer.
        self._replication_factor = replication_factor
        self._factor_setting = factor_setting
        self._topic_settings = dict(topic_settings or {})
        self._cluster: Cluster | None = None
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._reading: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        self._failure: Exception | None = None

    async def start(self) -> None:
        """Creates the topic if it is missing, and reads it to its end."""
        self._cluster = Cluster(self._settings)
        await self._create()
        self._producer = Producer(self._cluster, ProducerSettings(linger_ms=0))
        # It has its own connection pool, because its fetches wait long.
        reading = ConsumerSettings(read_committed=True, max_poll_records=10_000, auto_offset_reset="earliest")
        self._consumer = Consumer(self._settings, reading)
        await self._consumer.assign(await self._consumer.partitions(self.topic))
        beginning = await self._consumer.beginning_offsets(self._consumer.assignment)
        for one, offset in beginning.items():
            self._consumer.seek(one, offset)
        self._reading = asyncio.ensure_future(self._read())
        await self.read_to_end()

    async def stop(self) -> None:
        task, self._reading = self._reading, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for client in (self._producer, self._consumer):
            if client is not None:
                with suppress(ClientError, KafkaError):
                    await client.close()
        if self._cluster is not None:
            await self._cluster.close()

    async def send(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Writes records and returns when all are acknowledged. Raises the first error."""
        assert self._producer is not None, "the store was not started"
        deliveries = [await self._producer.send(self.topic, value, key) for key, value in records]
        for delivery in deliveries:
            await delivery

    async def read_to_end(self, timeout_ms: int = 30_000, *, settled: bool = False) -> None:
        """Returns when all records that are readable now have been handed to `on_record`.

        Records behind an open transaction are not readable. `settled` waits for the end of all transactions that are
        open now.
        """
        assert self._consumer is not None, "the store was not started"
        assert self._cluster is not None
        async with asyncio.timeout(timeout_ms / 1000):
            assignment = self._consumer.assignment
            ends = await Offsets(self._cluster).numbers(assignment, LATEST, committed=not settled)
            while any(self._consumer.position(one) < end for one, end in ends.items()):
                if self._failure is not None:
                    raise self._failure
                self._progress.clear()
                await self._progress.wait()

    async def _create(self) -> None:
        assert self._cluster is not None
        brokers = len((await self._cluster.refresh([])).brokers)
        given = self._replication_factor
        factor = min(REPLICAS, brokers) if given is None else given
        new = NewTopic(
            name=self.topic,
            partitions=self._partitions,
            replication_factor=factor,
            configs={**self._topic_settings, "cleanup.policy": "compact"},
        )
        answer = (await Topics(self._cluster).create([new]))[self.topic]
        if not isinstance(answer, KafkaError):
            logger.info("Created the topic %s with %d partitions and %d replicas", self.topic, self._partitions, factor)
        elif answer.code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise ConfigError(
                f"{self._factor_setting} is {factor}, but the cluster has {brokers} brokers: set it to {brokers} or "
                f"less, or leave it out. The topic {self.topic} was not created.",
                name=self._factor_setting,
            )
        elif answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer
        await self._cluster.fresh_topic(self.topic, create=False)

    async def _read(self) -> None:
        assert self._consumer is not None
        while True:
            try:
                for record in await self._consumer.poll(_POLL_MS):
                    self._on_record(record)
            except (ClientError, KafkaError) as error:
                logger.warning("Reading %s failed and is tried again: %s", self.topic, error)
                await asyncio.sleep(0.5)
            except Exception as error:
                # A record that fails to replay is a defect; waiting readers get the error.
                self._failure = error
                self._progress.set()
                raise
            self._progress.set()
