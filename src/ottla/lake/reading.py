"""Tables as Spark frames, without Iceberg's or Delta's own runtime: Spark reads the data files of the newest snapshot.

Columns of Iceberg tables are found by the ids of their fields, so renamed and widened columns have the values of all
rows. Tables in which other tools keep deleted rows beside the data files are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.lake.delta import DeltaStore, open_delta
from ottla.lake.errors import LakeError
from ottla.lake.settings import catalog_properties
from ottla.spark.tables import open_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["table_frame"]

_FIELD_ID = "parquet.field.id"


def table_frame(spark: SparkSession, name: str, properties: Mapping[str, str]) -> DataFrame:
    """The rows of the newest snapshot. Raises LakeError."""
    if properties.get("format", "iceberg") == "delta":
        return _delta_frame(spark, DeltaStore(catalog_properties(properties)["warehouse"]).location(name.split(".")))
    table = open_catalog(catalog_properties(properties)).load_table(name)
    tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise LakeError(f"Another tool has deleted rows of table {name} beside its files; read it with that tool.")
    # A setting of the whole session. It does not affect schemas without ids, which are read by names.
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    schema = _spark_type(table.schema().as_struct())
    return _files(spark, [task.file.file_path for task in tasks], schema)


def _delta_frame(spark: SparkSession, location: str) -> DataFrame:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    table = open_delta(location)
    if table is None:
        raise LakeError(f"There is no table {location}.")
    if {"deletionVectors", "columnMapping"} & set(table.protocol().reader_features or ()):
        raise LakeError(f"Another tool has deleted rows or renamed columns of {location}; read it with that tool.")
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    # The values of partition columns are in the paths.
    return _files(spark, table.file_uris(), schema, basePath=location)


def _files(spark: SparkSession, paths: Sequence[str], schema: Any, **options: str) -> DataFrame:
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.options(**options).schema(schema).parquet(*paths)


def _spark_type(iceberg: Any) -> Any:
    """The type of Spark, with the ids of fields."""
    from pyiceberg import types as of
    from pyspark.sql import types as spark

    if isinstance(iceberg, of.StructType):
        return spark.StructType(
            [
                spark.StructField(field.name, _spark_type(field.field_type), metadata={_FIELD_ID: field.field_id})
                for field in iceberg.fields
            ]
        )
    if isinstance(iceberg, of.ListType):
        return spark.ArrayType(_spark_type(iceberg.element_type))
    if isinstance(iceberg, of.MapType):
        return spark.MapType(_spark_type(iceberg.key_type), _spark_type(iceberg.value_type))
    if isinstance(iceberg, of.DecimalType):
        return spark.DecimalType(iceberg.precision, iceberg.scale)
    plain: list[tuple[type, type]] = [
        (of.BooleanType, spark.BooleanType),
        (of.IntegerType, spark.IntegerType),
        (of.LongType, spark.LongType),
        (of.FloatType, spark.FloatType),
        (of.DoubleType, spark.DoubleType),
        (of.DateType, spark.DateType),
        (of.TimestampType, spark.TimestampNTZType),
        (of.TimestamptzType, spark.TimestampType),
        (of.StringType, spark.StringType),
        (of.BinaryType, spark.BinaryType),
        (of.FixedType, spark.BinaryType),
    ]
    for iceberg_class, spark_class in plain:
        if isinstance(iceberg, iceberg_class):
            return spark_class()
    raise LakeError(f"Spark has no type for a column of {iceberg}.")
