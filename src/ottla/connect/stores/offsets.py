"""Offsets of sources: how far each source partition has been read, in Kafka Connect's own format.

Key `["<connector>",{partition}]`, value `{offset}`, null where an offset was removed. Source tasks write them in the
transaction of their records (`record` builds what they write); the store itself writes only what somebody changes
through REST. A standalone worker keeps the same pairs in a file, replaced as a whole after every batch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.client.consumer import ConsumedRecord
from ottla.client.errors import TimedOut
from ottla.connect.api import SourceOffset, SourcePartition
from ottla.connect.stores.topic_log import TopicLog

__all__ = ["FileOffsetStore", "OffsetStore", "TopicOffsetStore", "offset_record", "partition_key"]

logger = logging.getLogger(__name__)


def partition_key(partition: SourcePartition) -> str:
    """Equal partitions have equal keys, whatever the order of their fields."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


def offset_record(
    connector: str, partition: SourcePartition, offset: SourceOffset | None
) -> tuple[bytes, bytes | None]:
    """The key and value that the offset topic has for a source partition."""
    key = json.dumps([connector, dict(partition)], separators=(",", ":")).encode()
    value = None if offset is None else json.dumps(dict(offset), separators=(",", ":")).encode()
    return key, value


class OffsetStore:
    """The reading half; subclasses say where offsets are."""

    # The topic to which tasks write their offsets, in their transactions; None where `put` is used instead.
    topic: str | None = None

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}

    async def start(self) -> None:
        """Everything that is stored is known when this returns."""

    async def stop(self) -> None:
        """The end."""

    async def refresh(self) -> None:
        """What is committed by now is known when this returns."""

    async def put(self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Stores offsets outside of a task's transaction."""
        raise NotImplementedError

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Source partitions and their offsets, those of one connector."""
        return list(self._offsets.get(connector, {}).values())

    def get(self, connector: str, partition: SourcePartition) -> dict[str, Any] | None:
        found = self._offsets.get(connector, {}).get(partition_key(partition))
        return None if found is None else found[1]

    def _replay(self, key: bytes, value: bytes | None) -> None:
        try:
            connector, partition = json.loads(key)
            offset = None if value is None else json.loads(value)
        except (ValueError, TypeError):
            logger.warning("an offset is not in Connect's format; it is skipped: %r", key[:200])
            return
        if not isinstance(partition, dict):
            return
        known = self._offsets.setdefault(connector, {})
        if offset is None:
            known.pop(partition_key(partition), None)
        else:
            known[partition_key(partition)] = (partition, offset)


class TopicOffsetStore(OffsetStore):
    def __init__(self, log: Callable[[Callable[[ConsumedRecord], None]], TopicLog]) -> None:
        super().__init__()
        self._log = log(lambda record: self._replay(record.key or b"null", record.value))
        self.topic = self._log.topic

    async def start(self) -> None:
        await self._log.start()

    async def stop(self) -> None:
        await self._log.stop()

    async def refresh(self) -> None:
        try:
            await self._log.read_to_end(settled=True)
        except TimeoutError:
            raise TimedOut(
                f"A transaction in {self.topic} is open, and what was committed after it cannot be read before it ends."
            ) from None

    async def put(self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        # The topic and its compaction know a source partition by the bytes of its key: those of its last offset.
        known = self._offsets.get(connector, {})
        pairs = [(known.get(partition_key(partition), (partition,))[0], offset) for partition, offset in offsets]
        await self._log.send([offset_record(connector, partition, offset) for partition, offset in pairs])
        await self._log.read_to_end()


class FileOffsetStore(OffsetStore):
    """A file of JSON lines, one for each source partition: the key, a tab, the value."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        if self._path.exists():
            for line in (await asyncio.to_thread(self._path.read_text)).splitlines():
                key, tab, value = line.partition("\t")
                if tab:
                    self._replay(key.encode(), value.encode())

    async def put(self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        async with self._lock:
            for partition, offset in offsets:
                self._replay(*offset_record(connector, partition, offset))
            await asyncio.to_thread(self._write, _lines(self._offsets))

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _lines(offsets: Mapping[str, Mapping[str, tuple[dict[str, Any], dict[str, Any]]]]) -> str:
    lines = []
    for connector, known in sorted(offsets.items()):
        for partition, offset in known.values():
            key, value = offset_record(connector, partition, offset)
            assert value is not None
            lines.append(f"{key.decode()}\t{value.decode()}\n")
    return "".join(lines)
