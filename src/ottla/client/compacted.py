"""A compacted topic as a map: every process reads the whole topic, and follows it.

The stores of Connect and the Schema Registry keep their state in such topics. `read_to_end` gives a process its own
writes and those of others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from ottla.client.admin.configs import ConfigResource, Configs, ResourceType
from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["CompactedReader", "UnsuitableTopic", "create_compacted_topic"]

logger = logging.getLogger(__name__)

_POLL_MS = 500
_RETRY_SECONDS = 0.5
# As the defaults of Kafka Connect and of Confluent's registry; fewer where there are fewer brokers.
_REPLICAS = 3


class UnsuitableTopic(ClientError):
    """A topic that was there before and would lose records, or their order."""


async def create_compacted_topic(
    cluster: Cluster,
    topic: str,
    *,
    partitions: int = 1,
    replicas: int | None = None,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Creates the topic if it is missing, and checks it otherwise. Without `replicas`, three or one on each broker.

    A topic that is wanted with one partition, for the order of its records, must not have more. Returns when the
    metadata of the brokers has the topic, which takes a moment. Raises KafkaError and UnsuitableTopic.
    """
    brokers = len((await cluster.refresh([])).brokers)
    factor = min(_REPLICAS, brokers) if replicas is None else replicas
    new = NewTopic(
        name=topic,
        partitions=partitions,
        replication_factor=factor,
        configs={**(configs or {}), "cleanup.policy": "compact"},
    )
    answer = (await Topics(cluster).create([new]))[topic]
    is_new = not isinstance(answer, KafkaError)
    if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise answer
    if is_new:
        logger.info("Created the topic %s with %d partitions and %d replicas", topic, partitions, factor)
    known = await cluster.fresh_topic(topic, is_coming=True)
    if not is_new:
        if partitions == 1 and len(known.partitions) > 1:
            raise UnsuitableTopic(
                f"The topic {topic} has {len(known.partitions)} partitions and must have one, because the order of its "
                "records matters. Name another topic, or delete this one if it is not needed."
            )
        await _check_policy(cluster, topic)


async def _check_policy(cluster: Cluster, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = (await Configs(cluster).describe([resource], keys=["cleanup.policy"]))[resource]
    if isinstance(entries, KafkaError):
        logger.warning("It cannot be checked whether the topic %s is compacted: %s", topic, entries)
        return
    policy = next((entry.value for entry in entries), None)
    if policy is not None and policy != "compact":
        raise UnsuitableTopic(
            f"The topic {topic} has cleanup.policy={policy} and would lose records that are still needed. Set it to "
            f"compact: ottla configs alter --topic {topic} --set cleanup.policy=compact"
        )


class CompactedReader:
    """Hands every committed record to a function, from the first one on.

    If the function raises, reading ends, and `read_to_end` raises its error.
    """

    def __init__(self, settings: ClientSettings, topic: str, on_record: Callable[[ConsumedRecord], None]) -> None:
        self._settings = settings
        self._topic = topic
        self._on_record = on_record
        self._cluster: Cluster | None = None
        self._consumer: Consumer | None = None
        self._reading: asyncio.Task[None] | None = None
        self._progress = asyncio.Event()
        self._failure: Exception | None = None

    async def start(self, cluster: Cluster) -> None:
        """Reads all partitions to their ends, which `cluster` is asked for. The topic must exist."""
        self._cluster = cluster
        # The consumer has its own connection pool, because its fetches wait long.
        reading = ConsumerSettings(read_committed=True, max_poll_records=10_000, auto_offset_reset="earliest")
        self._consumer = consumer = Consumer(self._settings, reading)
        known = await cluster.topic(self._topic)
        await consumer.assign([TopicPartition(self._topic, number) for number in known.partitions])
        for partition, offset in (await consumer.beginning_offsets(consumer.assignment)).items():
            consumer.seek(partition, offset)
        self._reading = asyncio.ensure_future(self._read(consumer))
        await self.read_to_end()

    async def stop(self) -> None:
        task, self._reading = self._reading, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._consumer is not None:
            with suppress(ClientError, KafkaError):
                await self._consumer.close()

    async def read_to_end(self, timeout_ms: int = 60_000, *, settled: bool = False) -> None:
        """Returns when all records that are readable now have been handed to the function. Raises TimeoutError.

        Records behind an open transaction are not readable. `settled` waits for the end of all transactions that are
        open now.
        """
        assert self._cluster is not None, "the reader was not started"
        assert self._consumer is not None
        async with asyncio.timeout(timeout_ms / 1000):
            ends = await Offsets(self._cluster).numbers(self._consumer.assignment, LATEST, committed=not settled)
            for partition, end in ends.items():
                await self.wait_for(partition, end)

    async def wait_for(self, partition: TopicPartition, position: int) -> None:
        """Returns when all records before this position have been handed to the function."""
        assert self._consumer is not None, "the reader was not started"
        while self._consumer.position(partition) < position:
            if self._failure is not None:
                raise self._failure
            self._progress.clear()
            await self._progress.wait()

    async def _read(self, consumer: Consumer) -> None:
        while True:
            try:
                for record in await consumer.poll(_POLL_MS):
                    self._on_record(record)
            except (ClientError, KafkaError) as error:
                logger.warning("Reading %s failed and is tried again: %s", self._topic, error)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:
                self._failure = error
                self._progress.set()
                raise
            self._progress.set()
