"""Lakes for tests: a warehouse in a directory, the table of a topic, and its rows."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.lake.pipeline import TablePipeline
from ottla.lake.settings import LakeSettings, read_settings
from ottla.spark.tables import open_catalog
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


class Lake:
    """A warehouse, with the settings of its tables."""

    def __init__(self, topics: Topics, directory: Path, **keys: str) -> None:
        given = {"bootstrap.servers": topics.bootstrap, "warehouse": str(directory)}
        given |= {key.replace("_", "."): value for key, value in keys.items()}
        self.settings: LakeSettings = read_settings(given)
        self.catalog: Any = open_catalog(self.settings.catalog)

    def pipeline(self, spark: SparkSession, topic: str, configured: Mapping[str, str] | None = None) -> TablePipeline:
        return TablePipeline(spark, self.catalog, self.settings, self.settings.table(topic, configured or {}))

    def table(self, topic: str) -> Table:
        found: Table = self.catalog.load_table(self.settings.table(topic, {}).identifier)
        return found

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        """(partition, offset, key, value, headers) in the order of the topic."""
        rows = self.table(topic).scan().to_arrow().to_pylist()
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
        wanted = ", ".join(f'"{name}"' for name in columns)
        found: list[tuple[Any, ...]] = connection.execute(f"SELECT {wanted} FROM {scan} ORDER BY ALL").fetchall()
        return found
