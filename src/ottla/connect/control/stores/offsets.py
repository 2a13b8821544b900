"""The stores of source offsets: a compacted topic for distributed workers, a file for standalone workers.

`work.source_offsets` defines the records. Source tasks write offsets in the transactions of their rows; a store writes
only the changes that come through REST. A standalone worker replaces its file as a whole after every batch.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.client.consumer import ConsumedRecord
from ottla.client.errors import TimedOut
from ottla.connect.api import SourceOffset, SourcePartition
from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.control.stores.topic_log import TopicLog
from ottla.connect.work.source_offsets import OffsetStore, offset_record

__all__ = ["FileOffsetStore", "TopicOffsetStore"]


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
                f"An open transaction in {self.topic} hides later offsets; try again when it has ended."
            ) from None

    async def put(self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        await self._log.send(
            [offset_record(connector, self.stored_form(connector, partition), offset) for partition, offset in offsets]
        )
        await self._log.read_to_end()


class FileOffsetStore(OffsetStore):
    """A file of JSON lines, one for each source partition: the key, a tab, the value."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        try:
            # A file that cannot be written must fail the start, and not the first batch.
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a"):
                pass
        except OSError as error:
            raise ConfigError(
                f"offset.storage.file.filename: cannot write {self._path}: {error.strerror}.",
                name="offset.storage.file.filename",
            ) from error
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
        new_path = self._path.with_name(self._path.name + ".new")
        with new_path.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new_path.replace(self._path)


def _lines(offsets: Mapping[str, Mapping[str, tuple[dict[str, Any], dict[str, Any]]]]) -> str:
    lines = []
    for connector, known in sorted(offsets.items()):
        for partition, offset in known.values():
            key, value = offset_record(connector, partition, offset)
            assert value is not None
            lines.append(f"{key.decode()}\t{value.decode()}\n")
    return "".join(lines)
