"""A compacted topic as a replicated map: every worker reads all of it, and a writer waits until it has read its record.

`send` returns when the brokers have acknowledged. `read_to_end` returns when all records that were in the topic at the
time of the call have gone through `on_record`. Together they give a worker its own writes and those of other workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.compacted import CompactedReader, UnsuitableTopic, create_compacted_topic
from ottla.client.consumer import ConsumedRecord
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.connect.api.config_definitions import ConfigError
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["TopicLog", "count_of", "record_value"]


class TopicLog:
    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        on_record: Callable[[ConsumedRecord], None],
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        topic_setting: str = "storage.topic",
        factor_setting: str = "replication.factor",
        topic_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self._settings = settings
        self._partitions = partitions
        # None: three, or the number of brokers if there are fewer.
        self._replication_factor = replication_factor
        self._topic_setting = topic_setting
        self._factor_setting = factor_setting
        self._topic_settings = dict(topic_settings or {})
        self._cluster: Cluster | None = None
        self._reader = CompactedReader(settings, topic, on_record)
        self._producer: Producer | None = None

    async def start(self) -> None:
        """Creates the topic if it is missing, and reads it to its end."""
        self._cluster = Cluster(self._settings)
        await self._create(self._cluster)
        self._producer = Producer(self._cluster, ProducerSettings(linger_ms=0))
        await self._reader.start(self._cluster)

    async def stop(self) -> None:
        if self._producer is not None:
            with suppress(ClientError, KafkaError):
                await self._producer.close()
        await self._reader.stop()
        if self._cluster is not None:
            await self._cluster.close()

    async def send(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Writes records and returns when all are acknowledged. Raises the first error."""
        assert self._producer is not None, "the store was not started"
        deliveries = [await self._producer.send(self.topic, value, key) for key, value in records]
        for delivery in deliveries:
            await delivery

    async def read_to_end(self, timeout_ms: int = 30_000, *, settled: bool = False) -> None:
        """Reads as far as `CompactedReader.read_to_end` does."""
        await self._reader.read_to_end(timeout_ms, settled=settled)

    async def _create(self, cluster: Cluster) -> None:
        factor = self._replication_factor
        try:
            await create_compacted_topic(
                cluster, self.topic, partitions=self._partitions, replicas=factor, configs=self._topic_settings
            )
        except UnsuitableTopic as error:
            raise ConfigError(f"{self._topic_setting}: {error}", name=self._topic_setting) from error
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_REPLICATION_FACTOR:
                raise
            brokers = len(cluster.metadata.brokers)
            raise ConfigError(
                f"{self._factor_setting} is {factor}, but the cluster has {brokers} brokers: set it to {brokers} or "
                f"less, or leave it out. The topic {self.topic} was not created.",
                name=self._factor_setting,
            ) from error


def record_value(record: ConsumedRecord) -> dict[str, Any] | None:
    """The value of a record; other programs may write to the topic, too. Raises ValueError if it is not an object."""
    value = None if record.value is None else json.loads(record.value)
    if not isinstance(value, dict | None):
        raise ValueError("its value is not a JSON object")
    return value


def count_of(value: Mapping[str, Any], name: str) -> int:
    """A whole number of a record's value. Raises ValueError."""
    count = value.get(name)
    if not isinstance(count, int):
        raise ValueError(f"{name} is not a whole number")
    return count
