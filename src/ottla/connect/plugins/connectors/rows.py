"""Records as rows, for targets with columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.connect.api.spark_functions import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["METADATA", "rows_of"]

METADATA = ("topic", "partition", "offset", "timestamp", "key")


def rows_of(frame: DataFrame, metadata: Sequence[str] = (), more: Mapping[str, str] | None = None) -> DataFrame:
    """The fields of values as columns; a value that is not a struct is the column `value`. Drops tombstones."""
    from pyspark.sql import types as spark

    value = sql.col("value")
    data_type = frame.schema["value"].dataType
    if isinstance(data_type, spark.StructType):
        columns = [value.getField(field.name).alias(field.name) for field in data_type.fields]
    else:
        columns = [value]
    columns += [sql.col(name).alias(f"_{name}") for name in metadata if name in frame.columns]
    columns += [sql.col(name).alias(alias) for name, alias in (more or {}).items()]
    return frame.filter(value.isNotNull()).select(*columns)
