"""Source offsets as tasks use them: Kafka Connect's record format, and the interface of the store that holds them.

A record's key is `["<connector>",{partition}]`. Its value is `{offset}`, or null after the offset was removed. Source
tasks write these records in the transaction of their rows (`offset_record`). `control.stores.offsets` has the stores.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from ottla.connect.api import SourceOffset, SourcePartition

__all__ = ["OffsetStore", "offset_record", "partition_key"]

logger = logging.getLogger(__name__)


def partition_key(partition: SourcePartition) -> str:
    """The key of a partition, which does not depend on the order of its fields."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


def offset_record(
    connector: str, partition: SourcePartition, offset: SourceOffset | None
) -> tuple[bytes, bytes | None]:
    """The key and value that the offset topic has for a source partition."""
    key = json.dumps([connector, dict(partition)], separators=(",", ":")).encode()
    value = None if offset is None else json.dumps(dict(offset), separators=(",", ":")).encode()
    return key, value


class OffsetStore:
    """The offsets of all sources, in memory. Subclasses read and store them."""

    # The topic to which tasks write their offsets in transactions; None if they use `put` instead.
    topic: str | None = None

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}

    async def start(self) -> None:
        """Returns when all stored offsets have been read."""

    async def stop(self) -> None:
        """Stops reading."""

    async def refresh(self) -> None:
        """Returns when all offsets that are committed by now have been read."""

    async def put(self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Stores offsets outside of a task's transaction."""
        raise NotImplementedError

    def of(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The source partitions of a connector with their offsets."""
        return list(self._offsets.get(connector, {}).values())

    def get(self, connector: str, partition: SourcePartition) -> dict[str, Any] | None:
        stored = self._offsets.get(connector, {}).get(partition_key(partition))
        return None if stored is None else stored[1]

    def stored_form(self, connector: str, partition: SourcePartition) -> SourcePartition:
        """The partition as it is stored, where its fields may have another order.

        Partitioning and compaction of the topic compare keys as bytes, so the key of the last offset is used again.
        """
        stored = self._offsets.get(connector, {}).get(partition_key(partition))
        return partition if stored is None else stored[0]

    def _replay(self, key: bytes, value: bytes | None) -> None:
        try:
            connector, partition = json.loads(key)
            offset = None if value is None else json.loads(value)
            is_known = isinstance(connector, str) and isinstance(partition, dict) and isinstance(offset, dict | None)
        except (ValueError, TypeError, RecursionError):
            is_known = False
        if not is_known:
            # Other programs may write to the topic: an error would end its reader.
            logger.warning("A record of the offset store is not in Connect's format and is skipped: key %r", key[:200])
            return
        known = self._offsets.setdefault(connector, {})
        if offset is None:
            known.pop(partition_key(partition), None)
        else:
            known[partition_key(partition)] = (partition, offset)
