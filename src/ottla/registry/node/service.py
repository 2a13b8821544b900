"""An instance of the registry: its state follows the topic, and only the elected writer makes decisions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumedRecord
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.keys import KeyState
from ottla.registry.core.records import Record
from ottla.registry.core.registry import Registry
from ottla.registry.node.election import Election, Identity
from ottla.registry.node.topic import CompactedTopic, WriteFailed

__all__ = ["Elsewhere", "RegistryService", "ServiceSettings"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    topic: str = "_schemas"
    keys_topic: str = "_dek_registry_keys"
    group_id: str = "schema-registry"
    # None: three, or the number of brokers if there are fewer.
    replicas: int | None = None
    write_timeout_ms: int = 30_000
    is_eligible: bool = True


class Elsewhere(Exception):
    """Another instance, at `url`, is the writer."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


class RegistryService:
    def __init__(self, client: ClientSettings, settings: ServiceSettings) -> None:
        self.registry = Registry()
        self.settings = settings
        self._client = client
        self.keys = KeyState()
        self._topic = CompactedTopic(client, settings.topic, self._replay, replicas=settings.replicas)
        self._keys_topic = CompactedTopic(client, settings.keys_topic, self._replay_key, replicas=settings.replicas)
        self._cluster: Cluster | None = None
        self._election: Election | None = None
        self._electing: asyncio.Task[None] | None = None
        self._is_writer = False
        # How often a writer was elected.
        self.elections = 0
        self._writer: Identity | None = None
        self._elected = asyncio.Event()
        # Set, and replaced by a new event, after every election.
        self._writer_changed = asyncio.Event()
        self.cluster_id = ""
        # Until all schemas are read, an answer could deny a schema that exists.
        self.is_ready = False

    async def start(self, identity: Identity) -> None:
        """Returns when all schemas are read and a writer is known."""
        self._cluster = Cluster(self._client)
        self.cluster_id = (await self._cluster.refresh([])).cluster_id or ""
        await asyncio.gather(self._topic.start(), self._keys_topic.start())
        self._election = Election(self._cluster, self.settings.group_id, identity, self._on_elected)
        self._electing = asyncio.ensure_future(self._election.run())
        await self._elected.wait()
        self.is_ready = True

    async def stop(self) -> None:
        if self._electing is not None:
            self._electing.cancel()
            await asyncio.gather(self._electing, return_exceptions=True)
        if self._election is not None:
            with suppress(ClientError, KafkaError, TimeoutError):
                await self._election.leave()
        await asyncio.gather(self._topic.stop(), self._keys_topic.stop())
        if self._cluster is not None:
            await self._cluster.close()

    @property
    def is_writer(self) -> bool:
        return self._is_writer

    async def write(self, decide: Callable[[], tuple[list[Record], T]]) -> T:
        """The answer of a decision whose records are committed and replayed. Raises Elsewhere or RegistryError."""
        return await self._write(self._topic, decide)

    async def write_keys(self, decide: Callable[[], tuple[list[Record], T]]) -> T:
        """As `write`, for a decision about keys."""
        return await self._write(self._keys_topic, decide)

    async def _write(self, topic: CompactedTopic, decide: Callable[[], tuple[list[Record], T]]) -> T:
        self._check_writer()

        def encoded() -> tuple[list[tuple[bytes, bytes | None]], T]:
            records, answer = decide()
            return [record.encoded() for record in records], answer

        try:
            return await topic.write(encoded, self.settings.write_timeout_ms, check=self._check_writer)
        except WriteFailed as error:
            raise RegistryError(50001, f"Error while writing to the topic {topic.topic}: {error}") from error

    def _check_writer(self) -> None:
        if self._is_writer:
            return
        if self._writer is None:
            raise RegistryError(50004, "No instance of the registry has been elected to write. Try again.")
        raise Elsewhere(self._writer.url)

    async def wait_for_another_writer(self, url: str) -> None:
        """Returns when the instance at this address does not write any more."""
        while self._writer is not None and self._writer.url == url:
            await self._writer_changed.wait()

    async def catch_up(self) -> None:
        """Reads the writes of another instance. With a slow cluster, the next answer may be stale."""
        with suppress(ClientError, KafkaError, TimeoutError):
            await asyncio.gather(self._topic.read_to_end(5_000), self._keys_topic.read_to_end(5_000))

    def _replay(self, record: ConsumedRecord) -> None:
        decoded = _decoded(record)
        if decoded is not None:
            self.registry.state.replay(decoded, record.timestamp)

    def _replay_key(self, record: ConsumedRecord) -> None:
        decoded = _decoded(record)
        if decoded is not None:
            self.keys.replay(decoded, record.timestamp)

    async def _on_elected(self, is_writer: bool, identity: Identity | None) -> None:
        if is_writer and not self._is_writer:
            # Fences the former writer before this instance answers.
            await self._topic.start_writing()
            logger.info("This instance writes the schemas")
        was_writer = self._is_writer
        if identity is not None and identity != self._writer:
            self.elections += 1
        # Before the producers are closed, which takes time: a write that began meanwhile would fence the next writer.
        self._is_writer, self._writer = is_writer, identity
        self._writer_changed.set()
        self._writer_changed = asyncio.Event()
        if identity is not None:
            self._elected.set()
        if was_writer and not is_writer:
            await asyncio.gather(self._topic.stop_writing(), self._keys_topic.stop_writing())


def _decoded(record: ConsumedRecord) -> Record | None:
    if record.key is None:
        return None
    decoded = Record.decode(bytes(record.key), None if record.value is None else bytes(record.value))
    if decoded is None:
        logger.warning("The record at offset %d of %s has an unknown form", record.offset, record.topic)
    return decoded
