"""Lakes for tests: a warehouse in a directory, the table of a topic, and its rows."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.lake import read_table
from ottla.lake.delta import DeltaLakeTable, DeltaStore
from ottla.lake.driver import store_of
from ottla.lake.pipeline import TablePipeline
from ottla.lake.settings import LakeSettings, read_settings
from ottla.spark.tables import open_catalog
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


class Lake:
    """A warehouse, with the settings of its tables."""

    def __init__(self, topics: Topics, directory: Path, /, **keys: str) -> None:
        properties = {"bootstrap.servers": topics.bootstrap, "warehouse": str(directory)}
        properties |= {key.replace("_", "."): value for key, value in keys.items()}
        self.settings: LakeSettings = read_settings(properties)
        self.catalog: Any = open_catalog(self.settings.catalog)

    def pipeline(self, spark: SparkSession, topic: str, configured: Mapping[str, str] | None = None) -> TablePipeline:
        table = self.settings.table(topic, configured or {})
        return TablePipeline(spark, store_of(self.settings, self.catalog, table), self.settings, table)

    def delta(self, topic: str, suffix: str = "") -> DeltaLakeTable:
        """The Delta table of a topic."""
        *namespace, name = self.settings.table(topic, {}).identifier
        store = DeltaStore(self.settings.catalog["warehouse"])
        delta_table = DeltaLakeTable.find(store.location((*namespace, name + suffix)))
        assert delta_table is not None
        return delta_table

    def table(self, topic: str) -> Table:
        table: Table = self.catalog.load_table(self.settings.table(topic, {}).identifier)
        return table

    def all_rows(self, topic: str, suffix: str = "") -> list[dict[str, Any]]:
        """All columns of all rows, in either format. The suffix selects another table of the topic."""
        settings = self.settings.table(topic, {})
        *namespace, name = settings.identifier
        if settings.format == "delta":
            rows = self.delta(topic, suffix).table.to_pyarrow_table()
        else:
            rows = self.catalog.load_table((*namespace, name + suffix)).scan().to_arrow()
        row_dicts: list[dict[str, Any]] = rows.to_pylist()
        return row_dicts

    def typed_rows(self, topic: str) -> list[dict[str, Any]]:
        """The columns of the schema, in the order of the topic."""
        rows = sorted(self.all_rows(topic), key=lambda row: (row["_partition"], row["_offset"]))
        return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        """(partition, offset, key, value, headers) in the order of the topic."""
        rows = self.all_rows(topic)
        return sorted(
            (
                row["partition"],
                row["offset"],
                row["key"],
                row["value"],
                [(header["key"], header["value"]) for header in row["headers"]],
            )
            for row in rows
        )


def spark_rows(spark: SparkSession, lake: Lake, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as Spark reads them from the data files, in the order of the columns."""
    name = ".".join(lake.settings.table(topic, {}).identifier)
    frame = read_table(spark, name, lake.settings.properties)
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def duckdb_rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as DuckDB reads them, with its own implementation of Iceberg, in the order of the columns."""
    return _duckdb(f"iceberg_scan('{table.metadata_location}')", ("avro", "iceberg"), columns)


def duckdb_delta_rows(location: str, *columns: str) -> list[tuple[Any, ...]]:
    return _duckdb(f"delta_scan('{location}')", ("delta",), columns)


def _duckdb(scan: str, extensions: tuple[str, ...], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection:
        for name in extensions:
            folder = Path(import_module(f"duckdb_extension_{name}").__file__ or "").parent
            (file,) = folder.glob(f"extensions/v{duckdb.__version__}/{name}.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        column_list = ", ".join(".".join(f'"{part}"' for part in name.split(".")) for name in columns)
        rows: list[tuple[Any, ...]] = connection.execute(f"SELECT {column_list} FROM {scan} ORDER BY ALL").fetchall()
        return rows
