"""MirrorMaker 1: a consumer group that writes what it reads to topics of the same names in another cluster.

Records keep keys, values, headers and timestamps; the partition follows from the key at the target. Offsets are
committed at the source after the target has acknowledged the records, so that a crash repeats records and loses none.
`ottla mirror` copies exactly once, and keeps partitions.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.mirror.settings import MirrorError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["MirrorMaker", "MirrorMakerOptions", "included_topics"]

logger = logging.getLogger("ottla.mirror.mirror_maker")

_POLL_MS = 500
_LONGEST_OF_JAVA = "9223372036854775807"
# The defaults of MirrorMaker: no record is lost, and the order is kept.
_PRODUCER_DEFAULTS = {
    "acks": "all",
    "max.block.ms": "2147483647",
    "delivery.timeout.ms": "2147483647",
    "max.in.flight.requests.per.connection": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMakerOptions:
    include: str
    streams: int = 1
    commit_interval_ms: int = 60_000
    aborts_on_send_failure: bool = True


def included_topics(include: str) -> re.Pattern[str]:
    """The pattern of `--include`: a regular expression, or several with commas. Raises MirrorError."""
    text = include.strip().strip("\"'").replace(",", "|").replace(" ", "")
    if not text:
        raise MirrorError("--include needs a pattern of topics, such as 'orders|payments.*'.")
    try:
        return re.compile(text)
    except re.error as error:
        raise MirrorError(f"--include {include} is no regular expression: {error}.") from None


class MirrorMaker:
    """`consumer` and `producer` are the properties of Kafka's clients."""

    def __init__(self, consumer: Mapping[str, str], producer: Mapping[str, str], options: MirrorMakerOptions) -> None:
        if not consumer.get("group.id"):
            raise MirrorError("The consumer's file needs a group.id: it keeps the positions at the source.")
        for name, properties in (("consumer", consumer), ("producer", producer)):
            if not properties.get("bootstrap.servers"):
                raise MirrorError(f"The {name}'s file needs bootstrap.servers.")
        self._pattern = included_topics(options.include)
        self._options = options
        self._consumer_config = {**_bytes_only(consumer), "enable.auto.commit": "false"}
        self._producer_config = {**_PRODUCER_DEFAULTS, **_bytes_only(producer)}
        self._failure: Exception | None = None
        self.copied = 0
        self.failed = 0

    async def run(self, should_stop: Callable[[], bool], on_ready: Callable[[], None] = lambda: None) -> None:
        """Copies until it is stopped. Raises MirrorError, KafkaError or ClientError."""
        try:
            producer = Producer(self._producer_config)
        except (ClientError, ValueError) as error:
            raise MirrorError(f"The producer's file: {error}") from error
        try:
            async with asyncio.TaskGroup() as streams:
                for number in range(self._options.streams):
                    streams.create_task(self._stream(number, producer, should_stop))
                on_ready()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await producer.close()

    async def _stream(self, number: int, producer: Producer, should_stop: Callable[[], bool]) -> None:
        config = dict(self._consumer_config)
        if "client.id" in config:
            config["client.id"] = f"{config['client.id']}-{number}"
        try:
            consumer = Consumer(config)
        except (ClientError, ValueError) as error:
            raise MirrorError(f"The consumer's file: {error}") from error

        # True while not all records that the consumer has handed out are sent: the position is behind them.
        is_sending = False

        async def on_revoked(_: list[TopicPartition]) -> None:
            if not is_sending:
                await self._commit(consumer, producer)

        loop = asyncio.get_running_loop()
        async with consumer:
            await consumer.subscribe(pattern=self._pattern, on_revoked=on_revoked)
            commit_at = loop.time() + self._options.commit_interval_ms / 1000
            while not should_stop():
                records = await consumer.poll(_POLL_MS)
                is_sending = True
                for record in records:
                    timestamp = record.timestamp if record.timestamp >= 0 else None
                    try:
                        await producer.send(
                            record.topic,
                            record.value,
                            key=record.key,
                            headers=record.headers,
                            timestamp_ms=timestamp,
                            on_delivery=self._on_delivery,
                        )
                    except KafkaError as error:
                        self._on_delivery(None, error)
                        self._check()
                is_sending = False
                self._check()
                if loop.time() >= commit_at:
                    await self._commit(consumer, producer)
                    commit_at = loop.time() + self._options.commit_interval_ms / 1000
            await self._commit(consumer, producer)

    async def _commit(self, consumer: Consumer, producer: Producer) -> None:
        """Commits the positions after all records before them are acknowledged."""
        await producer.flush()
        self._check()
        await consumer.commit()

    def _on_delivery(self, _: object, error: Exception | None) -> None:
        if error is None:
            self.copied += 1
            return
        self.failed += 1
        self._failure = self._failure or error
        logger.error("a record could not be written: %s", error)

    def _check(self) -> None:
        if self._failure is not None and self._options.aborts_on_send_failure:
            raise MirrorError(
                f"A record could not be written: {self._failure}. Its offset is not committed, so it is copied again "
                "by the next run. With --abort.on.send.failure false such records are left out."
            )
        self._failure = None


def _bytes_only(properties: Mapping[str, str]) -> dict[str, str]:
    """Records are copied as bytes, whatever serializers a file names."""
    kept = {name: value for name, value in properties.items() if not name.endswith("serializer")}
    if kept.get("max.block.ms") == _LONGEST_OF_JAVA:
        # The value that the documentation of MirrorMaker recommends.
        kept["max.block.ms"] = _PRODUCER_DEFAULTS["max.block.ms"]
    return kept
