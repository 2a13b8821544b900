"""Transforms that set fields: metadata of the record, constants, and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, ConnectError, Importance, NonEmpty, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.transforms.base import Changes, Failure, column_or_null
from ottla.connect.plugins.transforms.structs import FieldTransform, Part, View, replaces_null

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["InsertFieldKey", "InsertFieldValue", "MaskFieldKey", "MaskFieldValue"]

TIMESTAMP_SCHEMA = schema.Schema(type="int64", name=schema.TIMESTAMP, version=1)
EPOCH = "1970-01-01"


class _InsertField(FieldTransform):
    """Adds fields with metadata of the record, or with a constant."""

    needs_struct = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        definitions = ConfigDefinitions()
        for name, subject in (
            ("topic.field", "the topic"),
            ("partition.field", "the partition"),
            ("offset.field", "the offset (sinks only)"),
            ("timestamp.field", "the timestamp of the record"),
            ("static.field", "a constant"),
        ):
            definitions.define(
                name,
                ConfigType.STRING,
                default=None,
                documentation=f"The field for {subject}. `!` behind the name makes it required, `?` optional.",
            )
        definitions.define("static.value", ConfigType.STRING, default=None, documentation="The constant.")
        return replaces_null(definitions)

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        names = [name for name in self.settings if name.endswith(".field")]
        if all(self.settings[name] is None for name in names):
            raise ConfigError("none of the fields to insert is set.", name="topic.field")
        if self.settings["static.field"] is not None and self.settings["static.value"] is None:
            raise ConfigError("static.value is required with static.field.", name="static.value")

    def change(self, view: View, frame: DataFrame) -> Changes:
        parts = view.parts()
        for setting, column, described in self._inserted(view, frame):
            text = self.settings.text_or_none(setting)
            if text is None:
                continue
            name = text.rstrip("!?") if text[-1:] in "!?" else text
            parts[name] = Part(column, described.with_optional(not text.endswith("!")))
        return self.rebuilt(view, parts)

    def _inserted(self, view: View, frame: DataFrame) -> list[tuple[str, Column, schema.Schema]]:
        if self.settings["offset.field"] is not None and "offset" not in frame.columns:
            raise ConnectError("offset.field is for sinks only: records of a source have no offset yet")
        timestamp = column_or_null(frame, "timestamp", "timestamp")
        moment = (timestamp, TIMESTAMP_SCHEMA)
        if view.schemaless:
            moment = (sql.unix_millis(timestamp), schema.Schema(type="int64"))
        constant = sql.lit(self.settings["static.value"]).cast("string")
        return [
            ("topic.field", column_or_null(frame, "topic", "string"), schema.Schema(type="string")),
            ("partition.field", column_or_null(frame, "partition", "int"), schema.Schema(type="int32")),
            ("offset.field", column_or_null(frame, "offset", "bigint"), schema.Schema(type="int64")),
            ("timestamp.field", *moment),
            ("static.field", constant, schema.Schema(type="string")),
        ]


class InsertFieldKey(_InsertField, side="key"):
    """Adds fields to the key."""


class InsertFieldValue(_InsertField, side="value"):
    """Adds fields to the value."""


class _MaskField(FieldTransform):
    """Hides fields: 0, empty text, false, or a replacement. Null stays null."""

    needs_struct = True
    refuses_null = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions()
            .define(
                "fields",
                ConfigType.LIST,
                importance=Importance.HIGH,
                validator=NonEmpty(),
                documentation="The fields to hide.",
            )
            .define(
                "replacement",
                ConfigType.STRING,
                default=None,
                importance=Importance.LOW,
                documentation="What takes their place, in numbers and text.",
            )
        )

    def change(self, view: View, frame: DataFrame) -> Changes:
        names = self.settings.texts("fields")
        parts = view.parts()
        failed: list[Failure] = []
        for name, (value, given) in view.parts().items():
            if name not in names:
                continue
            mask = self._mask(given, schemaless=view.schemaless)
            if mask is None:
                failed.append(Failure(value.isNotNull(), sql.lit(f"{given.type} cannot be masked: {name}")))
            else:
                parts[name] = Part(sql.when(value.isNotNull(), mask), given)
        return self.rebuilt(view, parts, like=view.schema, failed=tuple(failed))

    def _mask(self, given: schema.Schema, *, schemaless: bool) -> Column | None:
        """The mask for values of this type; None if the type cannot be masked."""
        data_type = schema.spark_type(given)
        replacement = self.settings.text_or_none("replacement")
        if replacement is not None:
            if given.type == "string":
                return sql.lit(replacement)
            if (given.type in schema.NUMBERS and given.name is None) or given.name == schema.DECIMAL:
                masked = sql.lit(replacement).try_cast(data_type)
                return sql.coalesce(masked, sql.raise_error(f"the replacement {replacement} is no {given.type}"))
            return None
        if given.name in (schema.DATE, schema.TIMESTAMP):
            return sql.lit(EPOCH).cast("date") if given.name == schema.DATE else sql.timestamp_millis(sql.lit(0))
        if given.type in schema.NUMBERS or given.name == schema.DECIMAL:
            return sql.lit(0).cast(data_type)
        if given.type == "boolean":
            return sql.lit(False)
        if given.type == "string":
            return sql.lit("")
        if given.type == "array":
            return sql.array().cast(data_type)
        if given.type == "map":
            return sql.map_from_arrays(sql.array(), sql.array()).cast(data_type)
        if given.is_struct and schemaless:
            # A map of Connect, which is a struct here: it is emptied by setting all fields to null.
            return sql.struct(
                *[sql.lit(None).cast(schema.spark_type(field.schema)).alias(field.name) for field in given.fields]
            )
        return None


class MaskFieldKey(_MaskField, side="key"):
    """Hides fields of the key."""


class MaskFieldValue(_MaskField, side="value"):
    """Hides fields of the value."""
