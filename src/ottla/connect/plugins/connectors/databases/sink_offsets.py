"""The offsets of a sink in its target: the next offset of every topic partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.api import OffsetRange, RetriableError
from ottla.connect.plugins.connectors.databases.dialect import Database

__all__ = ["SinkOffsets"]


class SinkOffsets:
    """The rows of a connector in the table of offsets. Every call is part of the caller's transaction."""

    def __init__(self, database: Database, *, table: str, connector: str) -> None:
        self._database = database
        self._connector = connector
        self._table = database.table_name(table)
        self._quoted = database.quote_table(self._table)
        self._mark = database.placeholder

    def create(self, cursor: Any) -> None:
        self._database.lock(cursor, f"ottla:{self._quoted}")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._quoted} (connector VARCHAR(255) NOT NULL, topic VARCHAR(255) NOT NULL, "
            "kafka_partition INTEGER NOT NULL, next_offset BIGINT NOT NULL, "
            "PRIMARY KEY (connector, topic, kafka_partition))"
        )

    def all(self, cursor: Any) -> dict[tuple[str, int], int]:
        cursor.execute(
            f"SELECT topic, kafka_partition, next_offset FROM {self._quoted} WHERE connector = {self._mark}",
            (self._connector,),
        )
        return {(topic, partition): offset for topic, partition, offset in cursor.fetchall()}

    def is_written(self, cursor: Any, ranges: Sequence[OffsetRange]) -> bool:
        """True if the ranges are in the target already. Locks the offsets until the end of the transaction."""
        for piece in sorted(ranges):
            self._database.lock(cursor, f"ottla:{self._quoted}:{self._connector}:{piece.topic}:{piece.partition}")
        stored = self.all(cursor)
        next_offsets = [stored.get((piece.topic, piece.partition), -1) for piece in ranges]
        if all(next_offset >= piece.end for next_offset, piece in zip(next_offsets, ranges, strict=True)):
            return True
        if any(next_offset > piece.start for next_offset, piece in zip(next_offsets, ranges, strict=True)):
            raise RetriableError("another worker has written a part of this batch; the task reads its offsets again")
        return False

    def advance(self, cursor: Any, ranges: Sequence[OffsetRange]) -> None:
        self.change(cursor, {(piece.topic, piece.partition): piece.end for piece in ranges})

    def change(self, cursor: Any, offsets: Mapping[tuple[str, int], int | None]) -> None:
        names = ("connector", "topic", "kafka_partition", "next_offset")
        statement = self._database.upsert(self._table, names, names[:3])
        for (topic, partition), offset in offsets.items():
            if offset is None:
                cursor.execute(
                    f"DELETE FROM {self._quoted} WHERE connector = {self._mark} AND topic = {self._mark} "
                    f"AND kafka_partition = {self._mark}",
                    (self._connector, topic, partition),
                )
            else:
                cursor.execute(statement, (self._connector, topic, partition, offset))
