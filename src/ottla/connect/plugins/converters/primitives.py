"""Converters of bytes, and of numbers and booleans in Kafka's binary form: big-endian, of fixed width."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar

from ottla.connect.api import schema
from ottla.connect.api.spark_functions import arrow_function, sql
from ottla.connect.plugins.converters.base import ColumnConverter, Converted, java_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "BooleanConverter",
    "ByteArrayConverter",
    "DoubleConverter",
    "FloatConverter",
    "IntegerConverter",
    "LongConverter",
    "ShortConverter",
]


class ByteArrayConverter(ColumnConverter):
    """Passes bytes unchanged."""

    aliases = java_names("org.apache.kafka.connect.converters.ByteArrayConverter")

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        if given.type != "bytes" or given.name == schema.DECIMAL:
            raise self.refuse(f"{_type_name(given)}, only bytes")
        return Converted(column=column)

    def decode(self, frame: DataFrame, column: str) -> Converted:
        return Converted(column=sql.col(column), schema=schema.Schema(type="bytes", optional=True))

    def keeps(self, kind: str) -> bool:
        return kind == "binary"


class _WholeNumberConverter(ColumnConverter):
    """Two's complement. Spark casts whole numbers to these bytes, and reads them through hexadecimal."""

    kind: ClassVar[str]
    size: ClassVar[int]

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        _require(self, given, self.kind)
        digits = sql.lpad(sql.hex(column.cast("bigint")), 16, "0")
        return Converted(column=sql.unhex(sql.right(digits, sql.lit(2 * self.size))))

    def decode(self, frame: DataFrame, column: str) -> Converted:
        given = sql.col(column)
        sized = sql.when(sql.octet_length(given) == self.size, given)
        unsigned = sql.conv(sql.hex(sized), 16, 10).cast("decimal(20,0)")
        modulus = sql.lit(str(1 << (8 * self.size))).cast("decimal(20,0)")
        half = sql.lit(str(1 << (8 * self.size - 1))).cast("decimal(20,0)")
        value = sql.when(unsigned >= half, unsigned - modulus).otherwise(unsigned)
        wanted = schema.Schema(type=self.kind, optional=True)
        failed = given.isNotNull() & (sql.octet_length(given) != self.size)
        return Converted(
            column=value.cast(schema.spark_type(wanted)),
            schema=wanted,
            failed=failed,
            message=sql.format_string(f"{self.kind} has {self.size} bytes, not %d", sql.octet_length(given)),
        )


class ShortConverter(_WholeNumberConverter):
    """16-bit whole numbers."""

    aliases = java_names("org.apache.kafka.connect.converters.ShortConverter")
    kind = "int16"
    size = 2


class IntegerConverter(_WholeNumberConverter):
    """32-bit whole numbers."""

    aliases = java_names("org.apache.kafka.connect.converters.IntegerConverter")
    kind = "int32"
    size = 4


class LongConverter(_WholeNumberConverter):
    """64-bit whole numbers."""

    aliases = java_names("org.apache.kafka.connect.converters.LongConverter")
    kind = "int64"
    size = 8


class _FloatingConverter(ColumnConverter):
    """IEEE 754. Spark has no expression for these bytes, so Python packs whole columns."""

    kind: ClassVar[str]
    size: ClassVar[int]
    code: ClassVar[str]

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        import pyarrow

        _require(self, given, self.kind)
        code = self.code

        def packed(numbers: pyarrow.Array) -> pyarrow.Array:
            encoded = [None if number is None else struct.pack(code, number) for number in numbers.to_pylist()]
            return pyarrow.array(encoded, type=pyarrow.binary())

        return Converted(column=arrow_function(packed, "binary")(column))

    def decode(self, frame: DataFrame, column: str) -> Converted:
        import pyarrow

        given = sql.col(column)
        code, size = self.code, self.size

        def unpacked(values: pyarrow.Array) -> pyarrow.Array:
            fits = [None if content is None or len(content) != size else content for content in values.to_pylist()]
            numbers = [None if content is None else struct.unpack(code, content)[0] for content in fits]
            return pyarrow.array(numbers, type=pyarrow.float64())

        wanted = schema.Schema(type=self.kind, optional=True)
        return Converted(
            column=arrow_function(unpacked, "double")(given).cast(schema.spark_type(wanted)),
            schema=wanted,
            failed=given.isNotNull() & (sql.octet_length(given) != size),
            message=sql.format_string(f"{self.kind} has {size} bytes, not %d", sql.octet_length(given)),
        )


class FloatConverter(_FloatingConverter):
    """32-bit floating point numbers."""

    aliases = java_names("org.apache.kafka.connect.converters.FloatConverter")
    kind = "float"
    size = 4
    code = ">f"


class DoubleConverter(_FloatingConverter):
    """64-bit floating point numbers."""

    aliases = java_names("org.apache.kafka.connect.converters.DoubleConverter")
    kind = "double"
    size = 8
    code = ">d"


class BooleanConverter(ColumnConverter):
    """One byte, 1 or 0."""

    aliases = java_names("org.apache.kafka.connect.converters.BooleanConverter")

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        _require(self, given, "boolean")
        return Converted(column=sql.when(column, sql.lit(b"\x01")).when(~column, sql.lit(b"\x00")))

    def decode(self, frame: DataFrame, column: str) -> Converted:
        given = sql.col(column)
        value = sql.when(given == sql.lit(b"\x01"), sql.lit(True)).when(given == sql.lit(b"\x00"), sql.lit(False))
        return Converted(
            column=value,
            schema=schema.Schema(type="boolean", optional=True),
            failed=given.isNotNull() & value.isNull(),
            message=sql.lit("a boolean is one byte, 0 or 1"),
        )


def _require(converter: ColumnConverter, given: schema.Schema, kind: str) -> None:
    if given.type != kind:
        raise converter.refuse(f"{_type_name(given)}, only {kind}")


def _type_name(given: schema.Schema) -> str:
    return given.name or given.type
