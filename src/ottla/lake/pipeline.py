"""A topic and its table: each step writes the new records to the table."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.lake.columns import DEAD_LETTER_SCHEMA, META_SCHEMA, RAW_SCHEMA
from ottla.lake.errors import LakeError, Overtaken, SchemaMissing
from ottla.lake.evolution import typed_shape
from ottla.lake.planning import PlannedBatch, offsets_of_topic, plan_batch, start_of_new_table
from ottla.lake.shapes import RawShape, RowShape
from ottla.lake.stores import LakeTable, NewTable, TableStore
from ottla.lake.subjects import SubjectSchema, subject_schema
from ottla.lake.tasks import DeadLetters, LandingJob, WrittenBatch, write_records
from ottla.lake.upsert import upsert_records
from ottla.spark.options import SourceOptions, source_options
from ottla.spark.tables import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.lake.settings import LakeSettings, TableSettings

__all__ = ["TablePipeline"]

log = logging.getLogger(__name__)

# The interval of expiry: it reads the manifests of all snapshots.
_EXPIRY_SECONDS = 60.0


class TablePipeline:
    """Keeps one table current. All its state is in the table: a new pipeline continues from the table's position."""

    def __init__(self, spark: SparkSession, store: TableStore, lake: LakeSettings, settings: TableSettings) -> None:
        if settings.mode.is_upsert and settings.partition_by:
            raise LakeError("Tables with a row for each key are partitioned by upsert.buckets; remove partition.by.")
        self._spark = spark
        self._store = store
        self._lake = lake
        self.settings = settings
        self.lag = 0
        """Offsets of the topic that the table did not have after the last batch."""
        self._options: SourceOptions = source_options(
            {**lake.client, "subscribe": settings.topic, "onDataLoss": settings.on_data_loss}, streaming=False
        )
        self._table: LakeTable | None = None
        self._dead: LakeTable | None = None
        self._expire_at = 0.0
        # The end of the topic at the first step. A new table may have to wait for its schema meanwhile.
        self._latest: Position | None = None

    def step(self) -> int:
        """Lands one batch and returns the number of its records. A step that has raised an error may be repeated."""
        before = self._position()
        batch = self._next_batch(before)
        self.lag = 0 if batch is None else batch.lag
        if batch is None:
            return 0
        # The registry is read after the records of the batch were written, so it has their schemas.
        subject = self._subject(batch)
        table = self._opened(subject, batch)
        table.refresh()
        if table.position() != before:
            self.lag += 1
            return 0
        shape: RowShape = RawShape()
        if subject is not None:
            self._store.evolve(table, subject)
            shape = typed_shape(table, subject, topic=self.settings.topic, registry=self._lake.registry)
        written = self._write(table, shape, before, batch)
        try:
            self._commit(table, before, batch, written)
        except Overtaken as error:
            log.warning("%s A batch of %d records was dropped here.", error, written.records)
            self.lag += max(1, written.records)
            return 0
        log.info("%s: %d records of topic %s", table.name, written.records, self.settings.topic)
        if batch.lag == 0:
            self._maintain(table)
        return written.records

    def _next_batch(self, before: Position | None) -> PlannedBatch | None:
        start = self._start_of_new_table() if before is None else before
        batch = plan_batch(self._options, self.settings, start, tasks=self._spark.sparkContext.defaultParallelism)
        if batch is None and before is None and start is not None:
            # A batch without records stores the start in the table. Another driver would begin at a later offset.
            return PlannedBatch((), start, lag=0)
        return batch

    def _start_of_new_table(self) -> Position | None:
        """None for the beginning of the topic."""
        if self.settings.starts_at == "latest":
            self._latest = start_of_new_table(self._options, self.settings.topic, self._latest)
        return self._latest

    def _subject(self, batch: PlannedBatch) -> SubjectSchema | None:
        """None for a table without a schema. Raises SchemaMissing and LakeError."""
        if not self.settings.mode.is_typed:
            return None
        try:
            return subject_schema(self._lake.registry, self.settings.subject)
        except SchemaMissing:
            if batch.work:
                raise
            # The batch only stores the start of a new table, which gets the columns of its schema later.
            return None

    def _maintain(self, table: LakeTable) -> None:
        """Compaction and expiry. Landed records do not depend on it."""
        with_expiry = time.monotonic() >= self._expire_at
        if with_expiry:
            self._expire_at = time.monotonic() + _EXPIRY_SECONDS
        try:
            self._store.maintain(self._spark, table, self.settings, with_expiry=with_expiry)
        except Exception as error:  # noqa: BLE001 - the next batch tries again
            log.warning("Table %s was not maintained: %s", table.name, error)

    def _position(self) -> Position | None:
        if self._table is None:
            self._table = self._store.find(self.settings)
            if self._table is None:
                return None
        self._table.refresh()
        return self._table.position()

    def _write(self, table: LakeTable, shape: RowShape, before: Position | None, batch: PlannedBatch) -> WrittenBatch:
        if not batch.work:
            return WrittenBatch()
        job = LandingJob(self._options, batch.work, shape, table.target(), self._dead_letters(before, batch))
        if not self.settings.mode.is_upsert:
            return write_records(self._spark, job)
        return upsert_records(self._spark, job, buckets=table.buckets(), existing=table.files_by_bucket())

    def _commit(self, table: LakeTable, before: Position | None, batch: PlannedBatch, written: WrittenBatch) -> None:
        # Each of the two tables has its own position. Dead letters are committed first: a repeated batch skips those
        # that are already there, while records before the position of the table would never be read again.
        commit_id = str(uuid.uuid4())
        if written.dead:
            assert self._dead is not None
            position = self._dead.position()
            self._dead.commit(written.dead, position, _later(position, batch.after), commit_id=commit_id)
        removed = table.files_at(written.removed)
        table.commit(written.added, before, batch.after, commit_id=commit_id, removed=removed)

    def _dead_letters(self, before: Position | None, batch: PlannedBatch) -> DeadLetters | None:
        if self.settings.mode.value == "raw":
            return None
        *namespace, name = self.settings.identifier
        dead = NewTable(
            identifier=(*namespace, f"{name}_dead_letters"),
            columns=DEAD_LETTER_SCHEMA,
            topic=self.settings.topic,
            topic_id=batch.after.topic_id,
            mode="dead-letters",
        )
        # Opened for every batch: users drop the table after they have dealt with its dead letters.
        self._dead = self._store.open_or_create(dead)
        return DeadLetters(self._dead.target(), _known_offsets(self._dead, before, batch.after))

    def _opened(self, subject: SubjectSchema | None, batch: PlannedBatch) -> LakeTable:
        """The table, made if necessary. A typed table has the columns of the subject, as soon as it has a schema."""
        if self._table is None:
            settings = self.settings
            own_columns = META_SCHEMA if settings.mode.is_typed else RAW_SCHEMA
            new = NewTable(
                identifier=settings.identifier,
                columns=own_columns if subject is None else subject.columns,
                topic=settings.topic,
                topic_id=batch.after.topic_id,
                mode=settings.mode.value,
                partition_by=settings.partition_by,
                buckets=settings.upsert_buckets if settings.mode.is_upsert else 0,
            )
            try:
                self._table = self._store.open_or_create(new)
            except LakeError as error:
                if not settings.mode.is_typed or subject is not None:
                    raise
                # The table is partitioned by a field of the schema.
                raise SchemaMissing(f"The registry has no subject {settings.subject} yet: {error}") from error
        return self._table


def _known_offsets(dead: LakeTable, before: Position | None, after: Position) -> Mapping[int, frozenset[int]]:
    """The records of a batch, by partition and offset, that are dead letters already.

    The position alone is not enough: a good record may become a dead letter when the batch is repeated. The table of
    dead letters may be older than the table, because the two tables can be dropped separately.
    """
    begins = offsets_of_topic(before, after.topic_id)
    ends = offsets_of_topic(dead.position(), after.topic_id)
    repeated = {
        partition: range(begins.get(partition, 0), min(end, after.offsets.get(partition, 0)))
        for partition, end in ends.items()
    }
    repeated = {partition: offsets for partition, offsets in repeated.items() if offsets}
    if not repeated:
        return {}
    rows = dead.places(
        min(offsets.start for offsets in repeated.values()), max(offsets.stop for offsets in repeated.values())
    )
    known: dict[int, set[int]] = {partition: set() for partition in repeated}
    for partition, offset in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True):
        if offset in repeated.get(partition, ()):
            known[partition].add(offset)
    return {partition: frozenset(offsets) for partition, offsets in known.items()}


def _later(position: Position | None, after: Position) -> Position:
    """The position of dead letters after a batch. A repeated batch may end earlier in some partitions."""
    known = offsets_of_topic(position, after.topic_id)
    ends = {partition: max(offset, known.get(partition, 0)) for partition, offset in after.offsets.items()}
    return Position(after.topic, after.topic_id, {**known, **ends})
