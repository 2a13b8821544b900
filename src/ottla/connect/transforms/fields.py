"""Transforms of fields: taking out, putting in, hiding, renaming, flattening."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.connect import schema
from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, Importance, NonEmpty, OneOf, Setting
from ottla.connect.lazy import sql
from ottla.connect.transforms.base import Change, Changes, FieldTransform, View, java_transform, struct_column
from ottla.connect.transforms.paths import parse_path
from ottla.connect.transforms.records import headers_with

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    "replaces_null",
]


def replaces_null(definitions: ConfigDefinitions) -> ConfigDefinitions:
    """The setting that all transforms of fields have."""
    return definitions.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        default=True,
        documentation="Whether a field that is null and has a default gets the default.",
    )


class _ExtractField(FieldTransform):
    """One field instead of the whole."""

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
                validator=OneOf(("V1", "V2"), any_case=True),
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
            given = current.schema.field(step)
            if given is None:
                if view.schemaless:
                    nothing = schema.Schema(type="string", optional=True)
                    return self.changed(view, sql.lit(None).cast("string"), nothing)
                message = sql.lit(f"there is no field {self.settings.text('field')}")
                return Changes(failed=((sql.lit(True), message),))
            current = View(
                column=current.field(step),
                schema=given,
                schemaless=view.schemaless,
                replaces_null=view.replaces_null,
            )
        return self.changed(view, current.column, current.schema)


class ExtractFieldKey(_ExtractField):
    """One field of the key instead of the key."""

    side = "key"
    aliases = java_transform("ExtractField$Key")


class ExtractFieldValue(_ExtractField):
    """One field of the value instead of the value."""

    aliases = java_transform("ExtractField$Value")


class _Flatten(FieldTransform):
    """Fields of structs in structs become fields of the outer one, named by their path."""

    needs_struct = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define(
            "delimiter", ConfigType.STRING, default=".", documentation="What stands between names in a path."
        )

    def change(self, view: View, frame: DataFrame) -> Changes:
        parts: dict[str, Column] = {}
        fields: list[schema.Field] = []
        wrong = self._collect(view.column, view.schema, "", view.schema.optional, parts, fields)
        if wrong is not None and not view.schemaless:
            return Changes(failed=((view.column.isNotNull(), sql.lit(f"a map cannot be flattened: {wrong}")),))
        described = replace(view.schema, fields=tuple(fields), default=None, optional=False)
        return self.changed(view, struct_column(view, parts), described)

    def _collect(
        self,
        column: Column,
        given: schema.Schema,
        prefix: str,
        optional: bool,
        parts: dict[str, Column],
        fields: list[schema.Field],
    ) -> str | None:
        """Gathers the leaves; answers with a field that has no fixed names below it."""
        for each in given.fields:
            name = f"{prefix}{self.settings.text('delimiter')}{each.name}" if prefix else each.name
            inner = column.getField(each.name)
            maybe = optional or each.schema.optional
            default = each.schema.default
            if default is None and isinstance(given.default, dict):
                default = given.default.get(each.name)
            if each.schema.is_struct:
                described = replace(each.schema, default=default)
                wrong = self._collect(inner, described, name, maybe, parts, fields)
                if wrong is not None:
                    return wrong
                continue
            if each.schema.type == "map":
                return name
            parts[name] = inner
            fields.append(schema.Field(name, replace(each.schema, optional=maybe, default=default)))
        return None


class FlattenKey(_Flatten):
    """Flattens the key."""

    side = "key"
    aliases = java_transform("Flatten$Key")


class FlattenValue(_Flatten):
    """Flattens the value."""

    aliases = java_transform("Flatten$Value")


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
                validator=OneOf(("move", "copy")),
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
                    return Changes(failed=((sql.lit(True), sql.lit(f"there is no field {name}")),))
                added.append((header, sql.lit(None).cast("binary")))
                continue
            encoded = self.header_converter.encode(view.field(name), given, schemaless=view.schemaless)
            added.append((header, encoded.column))
        columns = {"headers": Change(column=headers_with(frame, added))}
        if self.settings.text("operation") == "move":
            kept = tuple(each for each in view.schema.fields if each.name not in names)
            column = struct_column(view, {each.name: view.field(each.name) for each in kept})
            described = replace(view.schema, fields=kept, default=None, optional=False)
            columns[self.side] = Change(column=column, schema=described, schemaless=view.schemaless)
        return Changes(columns=columns)


class HeaderFromKey(_HeaderFrom):
    """Moves or copies fields of the key into headers."""

    side = "key"
    aliases = java_transform("HeaderFrom$Key")


class HeaderFromValue(_HeaderFrom):
    """Moves or copies fields of the value into headers."""

    aliases = java_transform("HeaderFrom$Value")


class _HoistField(FieldTransform):
    """The whole as the one field of a struct."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return ConfigDefinitions().define("field", ConfigType.STRING, documentation="The name of the field.")

    def change(self, view: View, frame: DataFrame) -> Changes:
        name = self.settings.text("field")
        described = schema.Schema(type="struct", fields=(schema.Field(name, view.schema),))
        return self.changed(view, sql.struct(view.column.alias(name)), described)


class HoistFieldKey(_HoistField):
    """The key as the one field of a struct."""

    side = "key"
    aliases = java_transform("HoistField$Key")


class HoistFieldValue(_HoistField):
    """The value as the one field of a struct."""

    aliases = java_transform("HoistField$Value")


class _ReplaceField(FieldTransform):
    """Drops and renames fields."""

    needs_struct = True

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions()
            .define("exclude", ConfigType.LIST, default=[], documentation="Fields to drop; goes before include.")
            .define("include", ConfigType.LIST, default=[], documentation="Fields to keep; all when it is empty.")
            .define(
                "renames",
                ConfigType.LIST,
                default=[],
                validator=_check_renames,
                documentation="Pairs old:new.",
            )
        )

    def change(self, view: View, frame: DataFrame) -> Changes:
        exclude, include = self.settings.texts("exclude"), self.settings.texts("include")
        renames = dict(each.split(":") for each in self.settings.texts("renames"))
        kept = [
            each for each in view.schema.fields if each.name not in exclude and (not include or each.name in include)
        ]
        parts = {renames.get(each.name, each.name): view.field(each.name) for each in kept}
        fields = tuple(schema.Field(renames.get(each.name, each.name), each.schema) for each in kept)
        described = replace(view.schema, fields=fields, default=None, optional=False)
        return self.changed(view, struct_column(view, parts), described)


class ReplaceFieldKey(_ReplaceField):
    """Drops and renames fields of the key."""

    side = "key"
    aliases = java_transform("ReplaceField$Key")


class ReplaceFieldValue(_ReplaceField):
    """Drops and renames fields of the value."""

    aliases = java_transform("ReplaceField$Value")


class _SetSchemaMetadata(FieldTransform):
    """Another name or version of the schema."""

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
            message = sql.lit("there is no schema whose name or version could be set")
            return Changes(failed=((view.column.isNotNull(), message),))
        described = view.schema
        if self.settings["schema.name"] is not None:
            described = replace(described, name=self.settings.text("schema.name"))
        if self.settings["schema.version"] is not None:
            described = replace(described, version=self.settings.integer("schema.version"))
        column = view.column
        if described.is_struct:
            column = struct_column(view, {each.name: view.field(each.name) for each in described.fields})
        return self.changed(view, column, described)


class SetSchemaMetadataKey(_SetSchemaMetadata):
    """Another name or version of the key's schema."""

    side = "key"
    aliases = java_transform("SetSchemaMetadata$Key")


class SetSchemaMetadataValue(_SetSchemaMetadata):
    """Another name or version of the value's schema."""

    aliases = java_transform("SetSchemaMetadata$Value")


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
        parts, fields = {}, []
        for name in self.settings.texts("fields"):
            given = view.schema.field(name)
            if given is None and not view.schemaless:
                return Changes(failed=((sql.lit(True), sql.lit(f"there is no field {name}")),))
            given = given or schema.Schema(type="string", optional=True)
            known = view.schema.field(name) is not None
            parts[name] = view.field(name) if known else sql.lit(None).cast("string")
            fields.append(schema.Field(name, given))
        described = schema.Schema(type="struct", fields=tuple(fields))
        change = Change(column=struct_column(view, parts), schema=described, schemaless=view.schemaless)
        return Changes(columns={"key": change})


def _check_renames(value: Setting) -> str | None:
    assert isinstance(value, list)
    wrong = [each for each in value if len(each.split(":")) != 2]
    return f"'{wrong[0]}' is no pair old:new." if wrong else None
