"""Transforms that extract, hoist, flatten, rename and drop fields, and copy them into headers or the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, Importance, NonEmpty, OneOf, Setting, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.transforms.base import Change, Changes, failed_where, java_transform
from ottla.connect.plugins.transforms.paths import parse_path
from ottla.connect.plugins.transforms.records import headers_with
from ottla.connect.plugins.transforms.structs import FieldTransform, Part, View, no_field, replaces_null, struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "ExtractFieldKey",
    "ExtractFieldValue",
    "FlattenKey",
    "FlattenValue",
    "HeaderFromKey",
    "HeaderFromValue",
    "HoistFieldKey",
    "HoistFieldValue",
    "ReplaceFieldKey",
    "ReplaceFieldValue",
    "SetSchemaMetadataKey",
    "SetSchemaMetadataValue",
    "ValueToKey",
]


class _ExtractField(FieldTransform):
    """Replaces the key or value by one of its fields."""

    needs_struct = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions()
            .define("field", ConfigType.STRING, documentation="The field, or with syntax V2 a path with dots.")
            .define(
                "field.syntax.version",
                ConfigType.STRING,
                default="V1",
                importance=Importance.HIGH,
                validator=OneOf("V1", "V2", any_case=True),
                documentation="V1: field is a name. V2: field is a path; names with dots stand in backticks (KIP-821).",
            )
        )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        text = self.settings.text("field")
        self._path = parse_path(text) if self.settings.text("field.syntax.version").upper() == "V2" else [text]

    def change(self, view: View, frame: DataFrame) -> Changes:
        current = view
        for step in self._path:
            part = current.part(step)
            if part is None:
                return no_field(self.settings.text("field"))
            current = replace(current, column=part.column, schema=part.schema)
        return self.changed(view, current.column, current.schema)


class ExtractFieldKey(_ExtractField, side="key"):
    """One field of the key instead of the key."""


class ExtractFieldValue(_ExtractField, side="value"):
    """One field of the value instead of the value."""


class _Flatten(FieldTransform):
    """Fields of nested structs become fields of the outer struct, named by their path."""

    needs_struct = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "delimiter", ConfigType.STRING, default=".", documentation="What stands between names in a path."
        )

    def change(self, view: View, frame: DataFrame) -> Changes:
        leaves: dict[str, Part] = {}
        wrong = self._collect(Part(view.column, view.schema), "", view.schema.optional, leaves)
        if wrong is not None and not view.schemaless:
            return failed_where(view.column.isNotNull(), f"a map cannot be flattened: {wrong}")
        return self.rebuilt(view, leaves)

    def _collect(self, whole: Part, prefix: str, optional: bool, leaves: dict[str, Part]) -> str | None:
        """Collects the leaves. Returns the name of a field that is a map, whose keys are no fixed names."""
        column, given = whole
        for field in given.fields:
            name = f"{prefix}{self.settings.text('delimiter')}{field.name}" if prefix else field.name
            inner = column.getField(field.name)
            is_optional = optional or field.schema.optional
            default = field.schema.default
            if default is None and isinstance(given.default, dict):
                default = given.default.get(field.name)
            if field.schema.is_struct:
                wrong = self._collect(Part(inner, replace(field.schema, default=default)), name, is_optional, leaves)
                if wrong is not None:
                    return wrong
                continue
            if field.schema.type == "map":
                return name
            leaves[name] = Part(inner, replace(field.schema, optional=is_optional, default=default))
        return None


class FlattenKey(_Flatten, side="key"):
    """Flattens the key."""


class FlattenValue(_Flatten, side="value"):
    """Flattens the value."""


class _HeaderFrom(FieldTransform):
    """Moves or copies fields into headers."""

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
                documentation="The fields.",
            )
            .define(
                "headers",
                ConfigType.LIST,
                importance=Importance.HIGH,
                validator=NonEmpty(),
                documentation="The names of the headers, one for each field.",
            )
            .define(
                "operation",
                ConfigType.STRING,
                importance=Importance.HIGH,
                validator=OneOf("move", "copy"),
                documentation="Whether the fields stay: move or copy.",
            )
        )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        if len(self.settings.texts("fields")) != len(self.settings.texts("headers")):
            raise ConfigError("headers and fields must be equally many.", name="headers")

    def change(self, view: View, frame: DataFrame) -> Changes:
        names = self.settings.texts("fields")
        added = []
        for name, header in zip(names, self.settings.texts("headers"), strict=True):
            given = view.schema.field(name)
            if given is None:
                if not view.schemaless:
                    return no_field(name)
                added.append((header, sql.lit(None).cast("binary")))
                continue
            encoded = self.header_converter.encode(view.field(name), given, schemaless=view.schemaless)
            added.append((header, encoded.column))
        columns = {"headers": Change(column=headers_with(frame, added))}
        if self.settings.text("operation") == "move":
            kept = {name: part for name, part in view.parts().items() if name not in names}
            columns[self.side] = struct_of(view, kept)
        return Changes(columns=columns)


class HeaderFromKey(_HeaderFrom, side="key"):
    """Moves or copies fields of the key into headers."""


class HeaderFromValue(_HeaderFrom, side="value"):
    """Moves or copies fields of the value into headers."""


class _HoistField(FieldTransform):
    """Wraps the key or value as the only field of a struct."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define("field", ConfigType.STRING, documentation="The name of the field.")

    def change(self, view: View, frame: DataFrame) -> Changes:
        name = self.settings.text("field")
        described = schema.Schema(type="struct", fields=(schema.Field(name, view.schema),))
        return self.changed(view, sql.struct(view.column.alias(name)), described)


class HoistFieldKey(_HoistField, side="key"):
    """The key as the one field of a struct."""


class HoistFieldValue(_HoistField, side="value"):
    """The value as the one field of a struct."""


class _ReplaceField(FieldTransform):
    """Drops and renames fields."""

    needs_struct = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions()
            .define("exclude", ConfigType.LIST, default=(), documentation="Fields to drop; goes before include.")
            .define("include", ConfigType.LIST, default=(), documentation="Fields to keep; all when it is empty.")
            .define(
                "renames",
                ConfigType.LIST,
                default=(),
                validator=_check_renames,
                documentation="Pairs old:new.",
            )
        )

    def change(self, view: View, frame: DataFrame) -> Changes:
        exclude, include = self.settings.texts("exclude"), self.settings.texts("include")
        renames = dict(text.split(":") for text in self.settings.texts("renames"))
        kept = {
            renames.get(name, name): part
            for name, part in view.parts().items()
            if name not in exclude and (not include or name in include)
        }
        return self.rebuilt(view, kept)


class ReplaceFieldKey(_ReplaceField, side="key"):
    """Drops and renames fields of the key."""


class ReplaceFieldValue(_ReplaceField, side="value"):
    """Drops and renames fields of the value."""


class _SetSchemaMetadata(FieldTransform):
    """Sets the name or version of the schema."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions()
            .define(
                "schema.name",
                ConfigType.STRING,
                default=None,
                importance=Importance.HIGH,
                documentation="The new name.",
            )
            .define(
                "schema.version",
                ConfigType.INT,
                default=None,
                importance=Importance.HIGH,
                documentation="The new version.",
            )
        )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        if self.settings["schema.name"] is None and self.settings["schema.version"] is None:
            raise ConfigError("schema.name or schema.version must be set.", name="schema.name")

    def change(self, view: View, frame: DataFrame) -> Changes:
        if view.schemaless:
            message = "there is no schema whose name or version could be set"
            return failed_where(view.column.isNotNull(), message)
        described = view.schema
        if self.settings["schema.name"] is not None:
            described = replace(described, name=self.settings.text("schema.name"))
        if self.settings["schema.version"] is not None:
            described = replace(described, version=self.settings.integer("schema.version"))
        if described.is_struct:
            return self.rebuilt(view, view.parts(), like=described)
        return self.changed(view, view.column, described)


class SetSchemaMetadataKey(_SetSchemaMetadata, side="key"):
    """Another name or version of the key's schema."""


class SetSchemaMetadataValue(_SetSchemaMetadata, side="value"):
    """Another name or version of the value's schema."""


class ValueToKey(FieldTransform):
    """A key made of fields of the value."""

    aliases = java_transform("ValueToKey")
    needs_struct = True
    refuses_null = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions().define(
                "fields",
                ConfigType.LIST,
                importance=Importance.HIGH,
                validator=NonEmpty(),
                documentation="The fields of the value that make the key.",
            )
        )

    def change(self, view: View, frame: DataFrame) -> Changes:
        parts: dict[str, Part] = {}
        for name in self.settings.texts("fields"):
            part = view.part(name)
            if part is None:
                return no_field(name)
            parts[name] = part
        return Changes(columns={"key": struct_of(view, parts, like=schema.Schema(type="struct"))})


def _check_renames(value: Setting) -> str | None:
    assert isinstance(value, tuple)
    wrong = [pair for pair in value if len(pair.split(":")) != 2]
    return f"'{wrong[0]}' is no pair old:new." if wrong else None
