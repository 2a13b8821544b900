"""The base of our converters: one column in, one column out, with failures noted beside the record."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.connect.api import ConnectError, Converter, Settings, record_failures, schema
from ottla.connect.api.spark_functions import sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["STAGED", "ColumnConverter", "Converted", "java_names"]


STAGED = "__staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A converted column. `failed` is true for rows whose conversion failed, `message` is the reason.

    An expensive expression that is used more than once, such as parsed JSON, is `staged`: it is computed once, and
    other expressions use it as the column `STAGED`.
    """

    column: Column
    staged: Column | None = None
    schema: schema.Schema | None = None
    schemaless: bool = False
    failed: Column | None = None
    message: Column | None = None


class ColumnConverter(Converter):
    """A converter of columns.

    Transforms that make headers use header converters (`encode`). Headers in frames are always bytes.
    """

    settings: Settings
    stage: str = record_failures.VALUE_CONVERTER

    def __init__(self) -> None:
        self.configure({}, is_key=False)

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        self.stage = record_failures.KEY_CONVERTER if is_key else record_failures.VALUE_CONVERTER
        self.settings = self.config_definitions().parse(config)

    def to_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        if column not in frame.columns:
            return frame
        given = schema.schema_of(frame, column)
        if given is not None:
            return self._replace(frame, column, self.encode(sql.col(column), given, schemaless=False))
        derived = schema.schema_from_spark(frame.schema[column].dataType)
        return self._replace(frame, column, self.encode(sql.col(column), derived, schemaless=True))

    def from_bytes(self, frame: DataFrame, column: str) -> DataFrame:
        if column not in frame.columns:
            return frame
        decoded = self.decode(frame, column)
        changed = self._replace(frame, column, decoded)
        if decoded.schemaless or decoded.schema is not None:
            changed = schema.attach(changed, column, None if decoded.schemaless else decoded.schema)
        return changed

    @property
    def looks_at_batch(self) -> bool:
        """True if `decode` reads all messages of a batch first."""
        return False

    @abstractmethod
    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        """The bytes of a typed column. `given` of schemaless values is derived from them. Raises ConnectError."""

    @abstractmethod
    def decode(self, frame: DataFrame, column: str) -> Converted:
        """The typed values of a binary column."""

    def refuse(self, subject: str) -> ConnectError:
        return ConnectError(f"{type(self).__name__} cannot convert {subject}")

    def _replace(self, frame: DataFrame, column: str, converted: Converted) -> DataFrame:
        if converted.staged is not None:
            frame = frame.withColumn(STAGED, converted.staged)
        # Failures refer to the old column, so they are noted first; failed records are null from now on.
        if converted.failed is not None:
            message = converted.message if converted.message is not None else sql.lit("the value cannot be converted")
            frame = record_failures.note_failures(
                frame, converted.failed, message, stage=self.stage, plugin=type(self).__name__
            )
        if record_failures.FAILURE in frame.columns:
            frame = frame.withColumn(column, sql.when(record_failures.sound(), converted.column))
        else:
            frame = frame.withColumn(column, converted.column)
        return frame if converted.staged is None else frame.drop(STAGED)


def java_names(*names: str) -> tuple[str, ...]:
    """Aliases: the names of Kafka Connect's classes."""
    return names
