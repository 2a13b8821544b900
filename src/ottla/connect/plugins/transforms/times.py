"""Conversion of times between text, numbers and Connect's types, always in UTC."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, ConnectError, Importance, OneOf, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.transforms.base import Changes, Failure, failed_where
from ottla.connect.plugins.transforms.structs import FieldTransform, Part, View, replaces_null

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

__all__ = ["TimestampConverterKey", "TimestampConverterValue", "format_utc", "parse_utc"]

DAY_MS = 86_400_000
# Spark counts microseconds in 64 bits.
MOMENT_MS_MAX = (2**63 - 1) // 1000
# The number of units in a second.
UNITS = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
TARGETS: Mapping[str, schema.Schema] = {
    "string": schema.Schema(type="string"),
    "unix": schema.Schema(type="int64"),
    "Date": schema.Schema(type="int32", name=schema.DATE, version=1),
    "Time": schema.Schema(type="int32", name=schema.TIME, version=1),
    "Timestamp": schema.Schema(type="int64", name=schema.TIMESTAMP, version=1),
}


class _TimestampConverter(FieldTransform):
    """Rewrites a point in time: text, a number since 1970, Connect's Date, Time or Timestamp."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions()
            .define(
                "field",
                ConfigType.STRING,
                default="",
                importance=Importance.HIGH,
                documentation="The field; without it the whole key or value is rewritten.",
            )
            .define(
                "target.type",
                ConfigType.STRING,
                importance=Importance.HIGH,
                validator=OneOf(*TARGETS),
                documentation="What it becomes: string, unix, Date, Time or Timestamp.",
            )
            .define(
                "format",
                ConfigType.STRING,
                default="",
                documentation="How text is written or read, in the letters of Java's SimpleDateFormat.",
            )
            .define(
                "unix.precision",
                ConfigType.STRING,
                default="milliseconds",
                importance=Importance.LOW,
                validator=OneOf(*UNITS),
                documentation="The unit of numbers since 1970.",
            )
        )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        if self.settings.text("target.type") == "string" and not self.settings.text("format").strip():
            raise ConfigError("format is required when target.type is string.", name="format")

    def change(self, view: View, frame: DataFrame) -> Changes:
        name = self.settings.text("field")
        target = TARGETS[self.settings.text("target.type")]
        if not name:
            moment, failed = self._moment(view.column, view.schema)
            described = target.with_optional(view.schema.optional)
            return self.changed(view, self._target(moment), described, failed=failed)
        if not view.schema.is_struct:
            message = f"{type(self).__name__} with a field needs a struct or a map, not {view.schema.type}"
            return failed_where(view.column.isNotNull(), message)
        parts = view.parts()
        if name not in parts:
            return Changes()
        column, given = parts[name]
        moment, failed = self._moment(column, given)
        parts[name] = Part(self._target(moment), target.with_optional(given.optional))
        return self.rebuilt(view, parts, like=replace(view.schema, default=None), failed=failed)

    def _moment(self, column: Column, given: schema.Schema) -> tuple[Column, tuple[Failure, ...]]:
        """Milliseconds since 1970, and the failures of values that cannot be read."""
        if given.name == schema.TIMESTAMP:
            return sql.unix_millis(column), ()
        if given.name == schema.DATE:
            return sql.unix_date(column).cast("bigint") * DAY_MS, ()
        if given.name == schema.TIME:
            return column.cast("bigint"), ()
        if given.type == "int64":
            moment = _rescaled(column, UNITS[self.settings.text("unix.precision")], 1000)
            within = sql.when(moment.between(-MOMENT_MS_MAX, MOMENT_MS_MAX), moment)
            message = sql.concat(column.cast("string"), sql.lit(" is beyond the times that can be held"))
            return within, (Failure(column.isNotNull() & within.isNull(), message),)
        if given.type == "string":
            pattern = self.settings.text("format")
            if not pattern.strip():
                raise ConnectError(f"{type(self).__name__} needs a format to read text")
            moment = sql.unix_millis(parse_utc(column, pattern))
            message = sql.concat(column, sql.lit(f" is no time as {pattern} writes it"))
            return moment, (Failure(column.isNotNull() & moment.isNull(), message),)
        message = sql.lit(f"{given.name or given.type} is no form of a timestamp")
        return sql.lit(None).cast("bigint"), (Failure(column.isNotNull(), message),)

    def _target(self, moment: Column) -> Column:
        kind = self.settings.text("target.type")
        if kind == "string":
            return format_utc(sql.timestamp_millis(moment), self.settings.text("format"))
        if kind == "unix":
            return _rescaled(moment, 1000, UNITS[self.settings.text("unix.precision")])
        if kind == "Date":
            return sql.date_from_unix_date(sql.floor(moment / DAY_MS).cast("int"))
        if kind == "Time":
            return sql.pmod(moment, sql.lit(DAY_MS)).cast("int")
        return sql.timestamp_millis(moment)


class TimestampConverterKey(_TimestampConverter, side="key"):
    """Rewrites a point in time in the key."""


class TimestampConverterValue(_TimestampConverter, side="value"):
    """Rewrites a point in time in the value."""


def format_utc(timestamp: Column, pattern: str) -> Column:
    """The text of a timestamp in UTC.

    `date_format` uses the time zone of the session, in which hours of UTC are missing when summer time begins. The
    functions of JSON have a setting for the time zone.
    """
    document = sql.to_json(sql.struct(timestamp.alias("at")), {"timestampFormat": pattern, "timeZone": "UTC"})
    return sql.get_json_object(document, "$.at")


def parse_utc(text: Column, pattern: str) -> Column:
    """A timestamp, or null where the text does not fit. Text is UTC, unless the pattern has a time zone."""
    options = {"timestampFormat": pattern, "timeZone": "UTC"}
    return sql.from_json(sql.to_json(sql.struct(text.alias("at"))), "at timestamp", options).getField("at")


def _rescaled(column: Column, given: int, wanted: int) -> Column:
    """Converts between units. A lost fraction is cut off towards zero, as in Java."""
    if given == wanted:
        return column
    if wanted > given:
        return sql.try_multiply(column, sql.lit(wanted // given).cast("bigint"))
    return sql.call_function("div", column, sql.lit(given // wanted).cast("bigint"))
