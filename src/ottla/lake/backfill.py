"""Fills a new topic from a raw table: every record once, in the order of each partition.

The table is read in portions of offsets, one batch for all partitions, each written by the exactly-once sink under the
number of the portion. The ends and the size of portions are stored before the first portion, as offsets of a group:
portions are then the same after an interruption, although the table may have grown.
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
from ottla.spark.sink.markers import written_up_to
from ottla.spark.sink.options import MARKERS_TOPIC
from ottla.spark.source.history import History, TablePiece, read_piece_in_order, whole_piece
from ottla.spark.source.planner import Planner
from ottla.spark.tables import MODE, newest_position, open_catalog

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

__all__ = ["Backfill"]

log = logging.getLogger(__name__)

PORTION = 200_000
"""The number of offsets of each partition in a batch; a task sorts these records in memory."""

_COLUMNS = ("key", "value", "partition", "timestamp", "headers")
_SCHEMA = (
    "key binary, value binary, partition int, timestamp timestamp, headers array<struct<key: string, value: binary>>"
)


class Backfill:
    """The constructor fixes the work: it creates the topic and stores the ends."""

    def __init__(self, lake: LakeSettings, topic: str, to: str, *, portion: int = PORTION) -> None:
        settings = lake.table(topic, {})
        if settings.format != "iceberg":
            raise LakeError("A topic is filled from an Iceberg table only; read a Delta table with Spark instead.")
        self.table = ".".join(settings.identifier)
        catalog = open_catalog(lake.catalog)
        if not catalog.table_exists(settings.identifier):
            raise LakeError(f"There is no table {self.table}.")
        table = catalog.load_table(settings.identifier)
        if table.properties.get(MODE, "raw") != "raw":
            raise LakeError(f"Table {self.table} is not a raw table: it does not have the bytes of all records.")
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
        self._portion = portion
        self.ends: dict[int, int] = self._stored_ends() or self._store_ends(position.offsets)

    def run(self, spark: SparkSession) -> None:
        partitions = max(self.ends) + 1
        for number in range(self._first_portion(partitions), -(-max(self.ends.values()) // self._portion)):
            pieces = [self._piece(partition, number) for partition in range(partitions)]
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

    def _piece(self, partition: int, number: int) -> TablePiece:
        start = number * self._portion
        end = min(start + self._portion, self.ends.get(partition, 0))
        topic_partition = TopicPartition(self._history.position.topic, partition)
        return whole_piece(self._history, topic_partition, start, max(start, end))

    def _first_portion(self, partitions: int) -> int:
        """The first portion with an unfinished task. The sink skips the tasks that have written this portion."""
        markers = [TopicPartition(MARKERS_TOPIC, partition) for partition in range(partitions)]

        async def find() -> int:
            return min(
                [
                    await written_up_to(self._client.admin, group_id=self._group, marker=marker, query_id=self._id)
                    for marker in markers
                ]
            )

        return self._client.run(find())

    # The plan, in the cluster.

    def _stored_ends(self) -> dict[int, int]:
        committed = self._client.run(self._client.admin.groups.offsets(self._group))
        stored = {partition: offset for partition, offset in committed.items() if partition.topic == self._to}
        for offset in stored.values():
            table_id, _, portion = (offset.metadata or "").partition("/")
            if table_id != self._id:
                raise LakeError(f"Topic {self._to} was filled from another table; choose a new topic.")
            self._portion = int(portion)
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
        metadata = f"{self._id}/{self._portion}"
        ends = {
            TopicPartition(self._to, number): CommittedOffset(end, metadata=metadata) for number, end in offsets.items()
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
