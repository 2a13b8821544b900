"""A source's task: read ranges, transform, convert, and write rows and offsets in one transaction.

A batch begins at the offsets of the offset store; there is no other checkpoint. A batch whose transaction was not
committed leaves no trace, and the next batch begins at the same offsets, on this worker or another worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.connect.api import ReadLimit, SourceConnector, SourceOffset, SourceReader
from ottla.connect.work.chain_interface import Chain
from ottla.connect.work.fenced_task import FencedTask
from ottla.connect.work.jobs import (
    ConnectorReference,
    SourcePiece,
    WriteTarget,
    Written,
    carry,
    read_source,
    straight,
    write,
    writing,
)
from ottla.connect.work.outgoing import together, with_topic
from ottla.connect.work.source_offsets import OffsetStore, offset_record, partition_key
from ottla.connect.work.task_loop import StoppedError, TaskStart
from ottla.connect.work.transactions import TaskTransactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["SourceTask"]

logger = logging.getLogger(__name__)

# Cached plans, one for each combination of schemas and numbers of pieces.
_PLANS_MAX = 16


@dataclass(frozen=True, slots=True)
class _Plan:
    frame: DataFrame
    reports: tuple[Callable[[], object], ...]


class SourceTask(FencedTask):
    def __init__(
        self,
        start: TaskStart,
        *,
        spark: SparkSession,
        chain: Chain,
        transactions: TaskTransactions,
        is_current: Callable[[FencedTask], bool],
        offsets: OffsetStore,
        target: Callable[[TaskTransactions], WriteTarget],
        reference: ConnectorReference,
    ) -> None:
        super().__init__(start, spark=spark, chain=chain, transactions=transactions, is_current=is_current)
        self._offsets = offsets
        self._target = target
        self._reference = reference
        self._reader: SourceReader | None = None
        self._positions: dict[str, SourceOffset] = {}
        self._plans: dict[tuple[tuple[str, int], ...], _Plan] = {}

    def open_plugin(self) -> None:
        connector = self.spec.connector()
        assert isinstance(connector, SourceConnector)
        if self._reader is None:
            self._reader = connector.reader(self.spec.task)

    def close_plugin(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def find_place(self) -> None:
        self.wait_for(self._offsets.refresh())
        stored = self._offsets.of(self.spec.task.connector)
        self._positions = {partition_key(partition): offset for partition, offset in stored}

    def batch(self, limit: ReadLimit) -> bool:
        assert self._reader is not None
        if not self.placed:
            self.take_over()
        pieces = self._plan(limit)
        self._look_for_obstacle(None if pieces else self._reader.waits_for())
        if not pieces:
            return False
        began = time.monotonic()
        self.wait_for(self.transactions.begin())
        try:
            written = self._write(pieces)
            if self.is_stopping:
                raise StoppedError
            self.wait_for(self._commit(pieces, wrote=written.records > 0))
        except BaseException:
            # If the abort fails as well, the next batch begins by opening the transactional id again.
            self.placed = False
            self.placed = self.wait_for(self.transactions.give_up())
            raise
        for piece in pieces:
            self._positions[partition_key(piece.partition)] = piece.end
        for topic in written.topics:
            self.used_topic(topic)
        self.progress.on_batch(records=written.records, size=written.bytes, seconds=time.monotonic() - began)
        for piece in pieces:
            self._reader.committed(piece.partition, piece.end)
        return True

    def _look_for_obstacle(self, waits_for: str | None) -> None:
        """Logs the obstacle that the source waits for, when it changes."""
        if waits_for != self.progress.waits_for:
            if waits_for is not None:
                logger.warning("Task %s waits: %s", self.spec.task.id, waits_for)
            else:
                logger.info("Task %s no longer waits", self.spec.task.id)
            self.progress.waits_for = waits_for

    def _plan(self, limit: ReadLimit) -> list[SourcePiece]:
        assert self._reader is not None
        pieces = []
        for partition in self._reader.partitions():
            start = self._positions.get(partition_key(partition))
            end = self._reader.latest(partition, start, limit)
            if end is not None and end != start:
                pieces.append(SourcePiece(dict(partition), start, dict(end)))
        return pieces

    def _write(self, pieces: list[SourcePiece]) -> Written:
        groups = self._by_schema(pieces)
        key = tuple((schema if isinstance(schema, str) else schema.json(), len(group)) for schema, group in groups)
        plan = self._plans.get(key)
        if plan is None:
            while len(self._plans) >= _PLANS_MAX:
                del self._plans[next(iter(self._plans))]
            plan = self._plans[key] = self._planned(groups)
        carry(self.spark, [group for _, group in groups], self._target(self.transactions))
        written = write(plan.frame)
        for report in plan.reports:
            report()
        return written

    def _planned(self, groups: list[tuple[str | StructType, list[SourcePiece]]]) -> _Plan:
        """The plan that moves rows from readers to topics. It is cached, because building costs more than running."""
        direct = self._straight(groups)
        if direct is not None:
            return _Plan(direct, ())
        parts, reports = [], []
        for number, (schema, group) in enumerate(groups):
            rows = read_source(self.spark, self._reference, self.spec.task, schema, frame=number, count=len(group))
            result = self.chain.source(with_topic(rows, self.spec.config))
            if result.report is not None:
                reports.append(result.report)
            parts.append(result.good)
        return _Plan(writing(together(parts)), tuple(reports))

    def _straight(self, groups: list[tuple[str | StructType, list[SourcePiece]]]) -> DataFrame | None:
        """The plan without transforms and conversions, for text and bytes; None if they are needed."""
        from pyspark.sql.types import StructType

        topic = self.spec.config.get("topic")
        schema, group = groups[0]
        wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        if len(groups) > 1 or not topic or not self.chain.keeps(wanted):
            return None
        return straight(self.spark, self._reference, self.spec.task, wanted, count=len(group), topic=topic)

    def _by_schema(self, pieces: list[SourcePiece]) -> list[tuple[str | StructType, list[SourcePiece]]]:
        assert self._reader is not None
        groups: dict[str, tuple[str | StructType, list[SourcePiece]]] = {}
        for piece in pieces:
            schema = self._reader.schema(piece.partition)
            key = schema if isinstance(schema, str) else schema.json()
            groups.setdefault(key, (schema, []))[1].append(piece)
        return list(groups.values())

    async def _commit(self, pieces: list[SourcePiece], *, wrote: bool) -> None:
        connector = self.spec.task.connector
        topic = self._offsets.topic
        if topic is not None:
            records = [
                offset_record(connector, self._offsets.stored_form(connector, piece.partition), piece.end)
                for piece in pieces
            ]
            await self.transactions.send(topic, records)
            await self.transactions.commit()
            return
        if wrote:
            await self.transactions.commit()
        else:
            await self.transactions.abort()
        await self._offsets.put(connector, [(piece.partition, piece.end) for piece in pieces])
