"""A new topic from a raw table: every record once, in the order of each partition.

The table is read in portions of offsets, one batch for all partitions, each written by the exactly-once sink under the
number of the portion. The end is stored before the first portion, as offsets of a group: portions are then the same
after an interruption, although the table may have grown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.topics import NewTopic
from ottla.lake.errors import LakeError
from ottla.lake.settings import LakeSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.spark.client import client_of
from ottla.spark.options import client_settings, source_options
from ottla.spark.source.history import RECORD_COLUMNS, History, TablePiece, read_piece_in_order, whole_piece
from ottla.spark.source.planner import Planner
from ottla.spark.tables import newest_position, open_catalog

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

__all__ = ["Backfill"]

log = logging.getLogger(__name__)

PORTION = 200_000
"""Offsets of each partition in a batch; a task sorts them in memory."""

_COLUMNS = ("key", "value", "partition", "timestamp", "headers")
_SCHEMA = (
    "key binary, value binary, partition int, timestamp timestamp, headers array<struct<key: string, value: binary>>"
)


class Backfill:
    """The work is fixed by the constructor, which creates the topic and stores the ends."""

    def __init__(self, lake: LakeSettings, topic: str, to: str) -> None:
        settings = lake.table(topic, {})
        self.table = ".".join(settings.identifier)
        catalog = open_catalog(lake.catalog)
        if not catalog.table_exists(settings.identifier):
            raise LakeError(f"There is no table {self.table}.")
        table = catalog.load_table(settings.identifier)
        if not {field.name for field in table.schema().fields}.issuperset(RECORD_COLUMNS):
            raise LakeError(f"Table {self.table} is not a raw table: it has no bytes of records.")
        position = newest_position(table)
        snapshot = table.current_snapshot()
        if position is None or snapshot is None:
            raise LakeError(f"Table {self.table} has no records.")
        self._history = History(table, position, snapshot.snapshot_id)
        self._to = to
        self._lake = lake
        self._group = f"ottla-backfill-{to}"
        self._id = str(table.metadata.table_uuid)
        self._client = client_of(client_settings(lake.client, client_id="ottla-lake"))
        self.ends: dict[int, int] = self._stored_ends() or self._store_ends(position.offsets)

    def run(self, spark: SparkSession, *, portion: int = PORTION) -> None:
        for number in range(-(-max(self.ends.values()) // portion)):
            pieces = [self._piece(partition, number, portion) for partition in range(max(self.ends) + 1)]
            count = len(pieces)
            frame = spark.range(0, count, 1, count).mapInArrow(partial(_read, pieces), _SCHEMA)
            frame.write.format("ottla").options(**self._lake.client).options(
                **{
                    "topic": self._to,
                    "delivery": "exactly-once",
                    "query.name": self._group,
                    "query.id": self._id,
                    "batch.id": str(number),
                }
            ).mode("append").save()
            log.info("Topic %s: portion %d is written", self._to, number)

    def _piece(self, number: int, portion: int, size: int) -> TablePiece:
        start = portion * size
        end = min(start + size, self.ends.get(number, 0))
        return whole_piece(self._history, TopicPartition(self._history.position.topic, number), start, max(start, end))

    # The plan, in the cluster.

    def _stored_ends(self) -> dict[int, int]:
        found = self._client.run(self._client.admin.groups.offsets(self._group))
        stored = {partition: offset for partition, offset in found.items() if partition.topic == self._to}
        if any(offset.metadata != self._id for offset in stored.values()):
            raise LakeError(f"Topic {self._to} was filled from another table; choose a new topic.")
        return {partition.partition: offset.offset for partition, offset in stored.items()}

    def _store_ends(self, offsets: Any) -> dict[int, int]:
        count = max(offsets) + 1
        self._create_topic(count)
        planner = Planner(source_options({**self._lake.client, "subscribe": self._to}, streaming=False))
        topics = planner.existing_topics()
        if len(topics.partitions) < count:
            raise LakeError(
                f"Topic {self._to} has {len(topics.partitions)} partitions, and table {self.table} {count}."
            )
        if any(planner.patiently(lambda: planner.latest(topics.partitions)).values()):
            raise LakeError(f"Topic {self._to} has records already; choose a new topic.")
        ends = {
            TopicPartition(self._to, number): CommittedOffset(end, metadata=self._id) for number, end in offsets.items()
        }
        for answer in self._client.run(self._client.admin.groups.alter_offsets(self._group, ends)).values():
            if answer is not None:
                raise answer
        return dict(offsets)

    def _create_topic(self, partitions: int) -> None:
        # Records keep their timestamps: retention would delete old ones while they are written.
        new = NewTopic(name=self._to, partitions=partitions, configs={"retention.ms": "-1"})
        answer = self._client.run(self._client.admin.topics.create([new]))[self._to]
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer


def _read(pieces: Sequence[TablePiece], batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for records in read_piece_in_order(pieces[number]):
                yield records.select(_COLUMNS)
