"""The base of the transforms: a transform declares changed columns and failures, and this module applies them.

A transform with a predicate changes some records of a column and keeps others. If the type changes, the column gets a
type for old and new values (all fields, widened numbers). If there is no such type, the configuration is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.connect.api import ConnectError, Settings, Transform, record_failures, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.base import ColumnConverter
from ottla.connect.plugins.converters.text import SimpleHeaderConverter

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "Change",
    "Changes",
    "ExpressionTransform",
    "Failure",
    "column_or_null",
    "conform",
    "failed_where",
    "java_transform",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The new content of a column. The schema of a schemaless value is derived from it; topic and headers have none."""

    column: Column
    schema: schema.Schema | None = None
    schemaless: bool = False


class Failure(NamedTuple):
    """A condition for records that fail, and the message."""

    where: Column
    message: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The effect of a transform: new columns, failures, and dropped records."""

    columns: Mapping[str, Change] = field(default_factory=dict)
    failed: tuple[Failure, ...] = ()
    dropped: bool = False


class ExpressionTransform(Transform):
    """A transform made of expressions."""

    settings: Settings
    # Converts headers that a transform adds to bytes.
    header_converter: ColumnConverter

    def __init__(self) -> None:
        self.header_converter = SimpleHeaderConverter()

    def configure(self, config: Mapping[str, str]) -> None:
        self.settings = self.config_definitions().parse(config)

    @abstractmethod
    def changes(self, frame: DataFrame) -> Changes:
        """The changes to records of this frame."""

    def apply(self, frame: DataFrame) -> DataFrame:
        return self.apply_where(frame, None)

    def apply_where(self, frame: DataFrame, condition: Column | None) -> DataFrame:
        """Applies the changes to records that match the condition and have not failed."""
        frame = record_failures.with_failures(frame)
        changes = self.changes(frame)
        if changes.dropped:
            keep = ~record_failures.sound()
            return frame.filter(keep if condition is None else keep | ~condition)
        for failure in changes.failed:
            where = failure.where if condition is None else failure.where & condition
            frame = record_failures.note_failures(
                frame,
                sql.coalesce(where, sql.lit(False)),
                failure.message,
                stage=record_failures.TRANSFORMATION,
                plugin=type(self).__name__,
            )
        # All columns at once, because changes may read other changed columns.
        columns: dict[str, Column] = {}
        schemas: dict[str, schema.Schema | None] = {}
        for name, change in changes.columns.items():
            columns[name], described = self._changed(frame, name, change, condition)
            if change.schema is not None or change.schemaless:
                schemas[name] = described
        frame = frame.withColumns(columns)
        for name, described in schemas.items():
            frame = schema.attach(frame, name, described)
        return frame

    def _changed(
        self, frame: DataFrame, name: str, change: Change, condition: Column | None
    ) -> tuple[Column, schema.Schema | None]:
        """The new column, null on records that failed, and its schema."""
        if name not in frame.columns:
            where = record_failures.sound() if condition is None else record_failures.sound() & condition
            return sql.when(where, change.column), change.schema
        if condition is None:
            kept = None if change.schema is not None or change.schemaless else sql.col(name)
            return _conditional(
                record_failures.sound(), change.column, kept
            ), None if change.schemaless else change.schema
        where = record_failures.sound() & condition
        if change.schema is None and not change.schemaless:
            return sql.when(where, change.column).otherwise(sql.col(name)), None
        old = schema.schema_of(frame, name)
        old_schema = old if old is not None else schema.schema_from_spark(frame.schema[name].dataType)
        new = change.schema
        assert new is not None, "a change of a key or value says what it looks like"
        try:
            merged = schema.merge(old_schema, new)
        except schema.SchemaError as error:
            raise ConnectError(f"{type(self).__name__} cannot have a predicate here: {error}") from error
        column = sql.when(where, conform(change.column, new, merged)).otherwise(
            conform(sql.col(name), old_schema, merged)
        )
        return column, None if change.schemaless or old is None else merged


def failed_where(condition: Column, message: str) -> Changes:
    """Fails these records, without changes."""
    return Changes(failed=(Failure(condition, sql.lit(message)),))


def column_or_null(frame: DataFrame, name: str, data_type: str) -> Column:
    """A column, or nulls if the frame does not have it."""
    return sql.col(name) if name in frame.columns else sql.lit(None).cast(data_type)


def conform(column: Column, given: schema.Schema, wanted: schema.Schema) -> Column:
    """The same values in the type of a wider schema."""
    if schema.spark_type(given) == schema.spark_type(wanted):
        return column
    if wanted.is_struct:
        parts = []
        for struct_field in wanted.fields:
            known = given.field(struct_field.name)
            if known is None:
                part = sql.lit(None).cast(schema.spark_type(struct_field.schema))
            else:
                part = conform(column.getField(struct_field.name), known, struct_field.schema)
            parts.append(part.alias(struct_field.name))
        return sql.when(column.isNotNull(), sql.struct(*parts))
    return column.cast(schema.spark_type(wanted))


def java_transform(name: str) -> tuple[str, ...]:
    """Aliases: the names of a transform in Kafka Connect."""
    return (f"org.apache.kafka.connect.transforms.{name}", name)


def _conditional(condition: Column, column: Column, otherwise: Column | None) -> Column:
    chosen = sql.when(condition, column)
    return chosen if otherwise is None else chosen.otherwise(otherwise)
