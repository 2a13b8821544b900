"""Converters of text: values as Java prints them, and headers in a readable form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigType, Importance, OneOf, schema
from ottla.connect.api.spark_functions import arrow_function, sql
from ottla.connect.plugins.converters.base import ColumnConverter, Converted, java_names

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

__all__ = ["SimpleHeaderConverter", "StringConverter", "date_text", "text_of", "time_text", "timestamp_text"]

# Characters that an encoding does not have. Java writes `?` for them.
_UNENCODABLE = {"US-ASCII": r"[^\x00-\x7F]", "ISO-8859-1": r"[^\x00-\xFF]"}
# Byte order marks with their codecs, for encodings that do not name the byte order.
_MARKS = {
    "UTF-16": ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"), (b"", "utf-16-be")),
    "UTF-32": ((b"\0\0\xfe\xff", "utf-32-be"), (b"\xff\xfe\0\0", "utf-32-le"), (b"", "utf-32-be")),
}
ENCODINGS = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32")


class StringConverter(ColumnConverter):
    """Text in an encoding, by default UTF-8. Other values are written as Java prints them."""

    aliases = java_names("org.apache.kafka.connect.storage.StringConverter")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "converter.encoding",
            ConfigType.STRING,
            default="UTF-8",
            importance=Importance.LOW,
            validator=OneOf(*ENCODINGS, any_case=True),
            documentation="The encoding of text in topics.",
        )

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        text = text_of(column, given, schemaless=schemaless)
        if self._is_utf8:
            return Converted(column=text.cast("binary"))
        unencodable = _UNENCODABLE.get(self._encoding)
        if unencodable is not None:
            text = sql.regexp_replace(text, unencodable, "?")
        return Converted(column=sql.encode(text, self._encoding))

    def decode(self, frame: DataFrame, column: str) -> Converted:
        given = sql.col(column)
        if self._is_utf8:
            # Invalid bytes become U+FFFD, as in Java.
            text = sql.make_valid_utf8(given.cast("string"))
        else:
            text = _decoded(given, self._encoding)
        return Converted(column=text, schema=schema.Schema(type="string", optional=True))

    def keeps(self, kind: str) -> bool:
        return kind == "string" and self._is_utf8

    @property
    def _encoding(self) -> str:
        return self.settings.text("converter.encoding").upper()

    @property
    def _is_utf8(self) -> bool:
        return self._encoding == "UTF-8"


class SimpleHeaderConverter(ColumnConverter):
    """A readable form: text as it is, numbers in digits, times in ISO 8601, lists and structs in JSON.

    The default converter of headers. Headers of records stay text until a type is requested.
    """

    aliases = java_names("org.apache.kafka.connect.storage.SimpleHeaderConverter")

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        if given.type in ("array", "map", "struct"):
            from ottla.connect.plugins.converters.json import json_text

            return Converted(column=json_text(column, given, numeric_decimals=True).cast("binary"))
        return Converted(column=text_of(column, given, schemaless=schemaless).cast("binary"))

    def decode(self, frame: DataFrame, column: str) -> Converted:
        return Converted(column=sql.col(column).cast("string"), schema=schema.Schema(type="string", optional=True))


def _decoded(column: Column, encoding: str) -> Column:
    """Text of bytes; invalid bytes become U+FFFD, as in Java. Spark's `decode` would fail the whole batch."""
    marks = _MARKS.get(encoding, ((b"", encoding),))

    def decoded(values: pyarrow.Array) -> pyarrow.Array:
        import pyarrow

        texts = []
        for data in values.to_pylist():
            text = None
            if data is not None:
                mark, codec = next(choice for choice in marks if data.startswith(choice[0]))
                text = data[len(mark) :].decode(codec, "replace")
            texts.append(text)
        return pyarrow.array(texts, type=pyarrow.string())

    return arrow_function(decoded, "string")(column)


def text_of(column: Column, given: schema.Schema, *, schemaless: bool = False) -> Column:
    """A value as Java's `toString` prints it; structs, lists and maps as Connect's and Java's classes do."""
    if given.name == schema.DATE:
        return date_text(column)
    if given.name == schema.TIMESTAMP:
        return timestamp_text(column)
    if given.name == schema.TIME:
        return time_text(column)
    if given.name == schema.DECIMAL:
        return column.cast("string")
    if given.is_struct:
        return _struct_text(column, given, schemaless=schemaless)
    if given.type == "array":
        items = given.items
        assert items is not None
        texts = sql.transform(column, lambda element: _or_null(text_of(element, items, schemaless=schemaless)))
        return sql.when(column.isNotNull(), sql.concat(sql.lit("["), sql.concat_ws(", ", texts), sql.lit("]")))
    if given.type == "map":
        return _map_text(column, given, schemaless=schemaless)
    if given.type == "bytes":
        return sql.base64(column)
    if given.type == "variant":
        return sql.to_json(column)
    return column.cast("string")


def date_text(column: Column) -> Column:
    return sql.date_format(column, "yyyy-MM-dd")


def timestamp_text(column: Column) -> Column:
    """A timestamp in UTC, regardless of the session's time zone."""
    millis = sql.unix_millis(column)
    date = sql.date_from_unix_date(sql.floor(millis / 86_400_000).cast("int"))
    return sql.concat(date_text(date), sql.lit("T"), time_text(sql.pmod(millis, sql.lit(86_400_000))))


def time_text(column: Column) -> Column:
    """Milliseconds of a day as a time of day."""
    seconds = sql.floor(column / 1000)
    text = sql.format_string(
        "%02d:%02d:%02d.%03dZ",
        sql.floor(seconds / 3600),
        sql.floor(seconds / 60) % 60,
        seconds % 60,
        column % 1000,
    )
    return sql.when(column.isNotNull(), text)


def _struct_text(column: Column, given: schema.Schema, *, schemaless: bool) -> Column:
    parts = []
    for field in given.fields:
        text = text_of(column.getField(field.name), field.schema, schemaless=schemaless)
        # A Struct omits null fields, a Map does not.
        parts.append(sql.concat(sql.lit(f"{field.name}="), _or_null(text) if schemaless else text))
    before, separator = ("{", ", ") if schemaless else ("Struct{", ",")
    return sql.when(column.isNotNull(), sql.concat(sql.lit(before), sql.concat_ws(separator, *parts), sql.lit("}")))


def _map_text(column: Column, given: schema.Schema, *, schemaless: bool) -> Column:
    keys, values = given.keys, given.values
    assert keys is not None
    assert values is not None
    entries = sql.transform(
        sql.map_entries(column),
        lambda entry: sql.concat(
            text_of(entry.getField("key"), keys, schemaless=schemaless),
            sql.lit("="),
            _or_null(text_of(entry.getField("value"), values, schemaless=schemaless)),
        ),
    )
    return sql.when(column.isNotNull(), sql.concat(sql.lit("{"), sql.concat_ws(", ", entries), sql.lit("}")))


def _or_null(text: Column) -> Column:
    return sql.coalesce(text, sql.lit("null"))
