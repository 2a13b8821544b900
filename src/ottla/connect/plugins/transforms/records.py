"""Transforms of topics, headers and whole records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigType, Importance, NonEmpty, Setting, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.transforms.base import (
    Change,
    Changes,
    ExpressionTransform,
    Failure,
    column_or_null,
    java_transform,
)
from ottla.connect.plugins.transforms.literals import parse_literal
from ottla.connect.plugins.transforms.times import format_utc

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "HEADERS_TYPE",
    "DropHeaders",
    "Filter",
    "InsertHeader",
    "RegexRouter",
    "TimestampRouter",
    "headers_with",
]

HEADERS_TYPE = "array<struct<key:string,value:binary>>"


class Filter(ExpressionTransform):
    """Drops records: all of them, or those that a predicate names."""

    aliases = java_transform("Filter")

    def changes(self, frame: DataFrame) -> Changes:
        return Changes(dropped=True)


class DropHeaders(ExpressionTransform):
    """Removes headers by name."""

    aliases = java_transform("DropHeaders")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "headers",
            ConfigType.LIST,
            importance=Importance.HIGH,
            validator=NonEmpty(),
            documentation="Names of the headers to remove.",
        )

    def changes(self, frame: DataFrame) -> Changes:
        if "headers" not in frame.columns:
            return Changes()
        names = self.settings.texts("headers")
        kept = sql.filter(sql.col("headers"), lambda header: ~header.getField("key").isin(names))
        return Changes(columns={"headers": Change(column=kept)})


class InsertHeader(ExpressionTransform):
    """Adds a header with a fixed value."""

    aliases = java_transform("InsertHeader")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("header", ConfigType.STRING, importance=Importance.HIGH, documentation="The name of the header.")
            .define(
                "value.literal",
                ConfigType.STRING,
                importance=Importance.HIGH,
                documentation="Its value; numbers, booleans, times, lists and maps are recognised.",
            )
        )

    def changes(self, frame: DataFrame) -> Changes:
        value, given = parse_literal(self.settings.text("value.literal"))
        column = sql.lit(value).cast(schema.spark_type(given))
        encoded = self.header_converter.encode(column, given, schemaless=False).column
        added = headers_with(frame, [(self.settings.text("header"), encoded)])
        return Changes(columns={"headers": Change(column=added)})


class RegexRouter(ExpressionTransform):
    """Another topic, where a regular expression matches the name as a whole."""

    aliases = java_transform("RegexRouter")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define(
                "regex",
                ConfigType.STRING,
                importance=Importance.HIGH,
                validator=_check_pattern,
                documentation="A regular expression, as Java knows it, for the whole name.",
            )
            .define(
                "replacement",
                ConfigType.STRING,
                importance=Importance.HIGH,
                documentation="The new name; $1 is what the first group matched.",
            )
        )

    def changes(self, frame: DataFrame) -> Changes:
        topic = column_or_null(frame, "topic", "string")
        regex = self.settings.text("regex")
        # A name that matches as a whole is replaced at the first match of the expression, which may be only a part.
        replaced = sql.regexp_replace(topic, rf"\A(?:{regex})", self.settings.text("replacement"))
        renamed = sql.when(topic.rlike(whole(regex)), replaced).otherwise(topic)
        return Changes(columns={"topic": Change(column=renamed)})


class TimestampRouter(ExpressionTransform):
    """Another topic, with the time of the record in its name."""

    aliases = java_transform("TimestampRouter")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define(
                "topic.format",
                ConfigType.STRING,
                default="${topic}-${timestamp}",
                importance=Importance.HIGH,
                documentation="The new name; ${topic} and ${timestamp} stand for the old name and the time.",
            )
            .define(
                "timestamp.format",
                ConfigType.STRING,
                default="yyyyMMdd",
                importance=Importance.HIGH,
                documentation="How the time is written, in UTC, in the letters of Java's SimpleDateFormat.",
            )
        )

    def changes(self, frame: DataFrame) -> Changes:
        topic = column_or_null(frame, "topic", "string")
        timestamp = column_or_null(frame, "timestamp", "timestamp")
        written = format_utc(timestamp, self.settings.text("timestamp.format"))
        places = re.split(r"(\$\{topic\}|\$\{timestamp\})", self.settings.text("topic.format"))
        parts = [
            topic if part == "${topic}" else written if part == "${timestamp}" else sql.lit(part) for part in places
        ]
        failed = Failure(timestamp.isNull(), sql.lit("the record has no timestamp"))
        return Changes(columns={"topic": Change(column=sql.concat(*parts))}, failed=(failed,))


def headers_with(frame: DataFrame, added: list[tuple[str, Column]]) -> Column:
    """The headers of a frame, followed by the added headers."""
    present = sql.coalesce(column_or_null(frame, "headers", HEADERS_TYPE), sql.array().cast(HEADERS_TYPE))
    more = [sql.struct(sql.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in added]
    return sql.concat(present, sql.array(*more).cast(HEADERS_TYPE))


def whole(pattern: str) -> str:
    """A pattern that must match all of a text."""
    return rf"^(?:{pattern})\z"


def _check_pattern(value: Setting) -> str | None:
    # Java's and Python's expressions differ in details, but both refuse an unbalanced bracket or a lone star.
    try:
        re.compile(str(value))
    except re.error as error:
        if "unknown extension" in str(error) or "bad escape" in str(error):
            return None
        return f"it must be a regular expression: {error}."
    return None
