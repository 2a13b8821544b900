"""The Iceberg tables of a catalog."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.lake.errors import LakeError
from ottla.lake.evolution import evolve
from ottla.lake.iceberg import IcebergTable
from ottla.lake.maintenance import compact, expire
from ottla.lake.partitioning import partition_spec
from ottla.spark.tables import MODE, TOPIC

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from ottla.lake.settings import TableSettings
    from ottla.lake.stores import NewTable
    from ottla.lake.subjects import SubjectSchema

__all__ = ["IcebergStore"]


class IcebergStore:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def find(self, settings: TableSettings) -> IcebergTable | None:
        if not self._catalog.table_exists(settings.identifier):
            return None
        table = IcebergTable(self._catalog, settings.identifier)
        _check_owner(table, topic=settings.topic, mode=settings.mode.value)
        return table

    def open_or_create(self, new: NewTable) -> IcebergTable:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = IcebergTable(self._catalog, new.identifier)
        except NoSuchTableError:
            table = self._create(new)
        _check_owner(table, topic=new.topic, mode=new.mode)
        return table

    def evolve(self, table: IcebergTable, subject: SubjectSchema) -> None:
        evolve(table, subject)

    def maintain(self, spark: SparkSession, table: IcebergTable, settings: TableSettings, *, with_expiry: bool) -> None:
        if settings.compact_files:
            compact(spark, table, files_min=settings.compact_files)
        if settings.expire_after_ms and with_expiry:
            expire(table, older_than_ms=settings.expire_after_ms)

    def _create(self, new: NewTable) -> IcebergTable:
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
        from pyiceberg.schema import assign_fresh_schema_ids

        self._catalog.create_namespace_if_not_exists(new.identifier[:-1])
        iceberg = assign_fresh_schema_ids(visit_pyarrow(new.columns, _ConvertToIcebergWithoutIDs()))
        key = "_key" if "_key" in new.columns.names else "key"
        partition_by = (f"bucket({new.buckets}, {key})",) if new.buckets else new.partition_by
        properties = {
            TOPIC: new.topic,
            MODE: new.mode,
            # Each commit makes a metadata file and a manifest. Without these settings none would ever be deleted.
            "write.metadata.delete-after-commit.enabled": "true",
            "commit.manifest-merge.enabled": "true",
        }
        spec = partition_spec(partition_by, iceberg)
        # Another pipeline may have created the table meanwhile.
        with suppress(TableAlreadyExistsError):
            self._catalog.create_table(new.identifier, iceberg, partition_spec=spec, properties=properties)
        return IcebergTable(self._catalog, new.identifier)


def _check_owner(table: IcebergTable, *, topic: str, mode: str) -> None:
    properties = table.table.properties
    known = properties.get(TOPIC)
    if known != topic:
        owner = f"of topic {known}" if known else "of no topic"
        raise LakeError(f"Table {table.name} is the table {owner}: set topic.{topic}.table to another name.")
    table_mode = properties.get(MODE, mode)
    if table_mode != mode:
        raise LakeError(
            f"Table {table.name} was made with mode = {table_mode}, and topic {topic} has mode = {mode} now: "
            f"set topic.{topic}.table to another name."
        )
