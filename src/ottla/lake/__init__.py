"""Lake tables: topics as Iceberg and Delta tables, kept current by Spark, exactly once. See README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_records", "read_table"]


def read_records(options: Mapping[str, str]) -> Iterator[pyarrow.RecordBatch]:
    """The records of a topic with their past in its table, partition by partition in the order of their offsets.

    The options are those of `spark.read.format("ottla")` with `history`; no Spark session is needed.
    """
    from ottla.spark.options import source_options
    from ottla.spark.source.history import read_in_order

    yield from read_in_order(source_options(options, streaming=False))


def read_table(spark: SparkSession, name: str, properties: Mapping[str, str]) -> DataFrame:
    """The newest snapshot of a table as a Spark frame: Spark reads its data files.

    The properties are those of `ottla lake`: `warehouse`, `catalog.*`, and `format` if it is delta.
    """
    from ottla.lake.reading import table_frame

    return table_frame(spark, name, properties)
