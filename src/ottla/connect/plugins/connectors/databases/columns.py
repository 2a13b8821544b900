"""Columns of tables: a name and a Connect schema, which determines the types of Spark and Arrow."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect.api.schema import (
    DATE,
    DECIMAL,
    METADATA_SCHEMA,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    schema_to_json,
    spark_type,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructField

__all__ = [
    "Column",
    "arrow_array",
    "arrow_type",
    "date",
    "decimal",
    "described",
    "milliseconds_of",
    "primitive",
    "struct_of",
    "time",
    "time_of",
    "timestamp",
]

DAY_MS = 86_400_000
MIDNIGHT = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table or query."""

    name: str
    schema: Schema
    is_key: bool = False
    # True for types that Connect does not have: the database casts them to text.
    as_text: bool = False


def primitive(kind: str, *, optional: bool = True) -> Schema:
    return Schema(type=kind, optional=optional)


def decimal(precision: int, scale: int, *, optional: bool = True) -> Schema:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return Schema(type="bytes", optional=optional, name=DECIMAL, version=1, parameters=parameters)


def date(*, optional: bool = True) -> Schema:
    return Schema(type="int32", optional=optional, name=DATE, version=1)


def time(*, optional: bool = True) -> Schema:
    return Schema(type="int32", optional=optional, name=TIME, version=1)


def timestamp(*, optional: bool = True) -> Schema:
    return Schema(type="int64", optional=optional, name=TIMESTAMP, version=1)


def struct_of(columns: Iterable[Column], *, optional: bool = False) -> Schema:
    fields = tuple(Field(column.name, column.schema) for column in columns)
    return Schema(type="struct", optional=optional, fields=fields)


def described(name: str, schema: Schema) -> StructField:
    """A column of a frame with its schema as metadata."""
    from pyspark.sql.types import StructField

    metadata = {METADATA_SCHEMA: json.dumps(schema_to_json(schema))}
    return StructField(name, spark_type(schema), metadata=metadata)


def arrow_type(schema: Schema) -> pyarrow.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(spark_type(schema), timezone="UTC")


def arrow_array(values: Sequence[Any], schema: Schema) -> pyarrow.Array:
    """Values of a database driver as an Arrow array."""
    import pyarrow

    if schema.name == TIME:
        values = [None if value is None else milliseconds_of(value) for value in values]
    return pyarrow.array(values, arrow_type(schema))


def milliseconds_of(value: datetime.time) -> int:
    """Milliseconds of the day, as in Connect's Time."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def time_of(milliseconds: int) -> datetime.time:
    return (MIDNIGHT + datetime.timedelta(milliseconds=milliseconds % DAY_MS)).time()
