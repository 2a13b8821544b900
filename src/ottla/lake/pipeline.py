"""A topic and its table: one step lands the records that are new."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from ottla.lake.catalogs import open_or_create
from ottla.lake.columns import RAW_SCHEMA
from ottla.lake.errors import Overtaken
from ottla.lake.files import FileTarget
from ottla.lake.iceberg import IcebergTable
from ottla.lake.planning import plan_batch
from ottla.lake.tasks import write_records
from ottla.spark.options import SourceOptions, source_options

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from ottla.lake.settings import LakeSettings, TableSettings

__all__ = ["TablePipeline"]

log = logging.getLogger(__name__)


class TablePipeline:
    """Keeps one table current. All of its state is in the table: a new pipeline continues where the last one ended."""

    def __init__(self, spark: SparkSession, catalog: Catalog, lake: LakeSettings, settings: TableSettings) -> None:
        self._spark = spark
        self._catalog = catalog
        self._lake = lake
        self.settings = settings
        self.lag = 0
        """Offsets of the topic that the table did not have after the last batch."""
        self._options: SourceOptions = source_options(
            {**lake.client, "subscribe": settings.topic, "onDataLoss": settings.on_data_loss}, streaming=False
        )
        self._table: IcebergTable | None = None

    def step(self) -> int:
        """Lands one batch and returns the number of its records. Raises what prevented it; it may be repeated."""
        table = self._opened()
        table.refresh()
        before = table.position()
        batch = plan_batch(self._options, self.settings, before, tasks=self._spark.sparkContext.defaultParallelism)
        self.lag = 0 if batch is None else batch.lag
        if batch is None:
            return 0
        written = write_records(self._spark, self._options, batch.pieces, FileTarget.of(table.table))
        try:
            table.commit(written.files, before, batch.after, commit_id=str(uuid.uuid4()))
        except Overtaken as error:
            log.warning("%s A batch of %d records was dropped here.", error, written.records)
            return 0
        log.info("%s: %d records of topic %s", table.name, written.records, self.settings.topic)
        return written.records

    def _opened(self) -> IcebergTable:
        if self._table is None:
            identifier = self.settings.identifier
            open_or_create(
                self._catalog,
                identifier,
                RAW_SCHEMA,
                topic=self.settings.topic,
                partition_by=self.settings.partition_by,
            )
            self._table = IcebergTable(self._catalog, identifier)
        return self._table
