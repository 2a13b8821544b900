"""The base of transforms of the key or the value, most of which rebuild a struct.

`View.parts` are the fields of the old struct; a transform changes, adds and drops parts; `struct_of` makes the new
struct of the parts, with its schema.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ottla.connect.api import ConfigDefinitions, ConfigType, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.json_expressions import default_column
from ottla.connect.plugins.transforms.base import (
    Change,
    Changes,
    ExpressionTransform,
    Failure,
    failed_where,
    java_transform,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FieldTransform", "Part", "View", "no_field", "replaces_null", "struct_of"]

REPLACE_NULL = "replace.null.with.default"
# The schema of a field that a schemaless value does not have.
ABSENT = schema.Schema(type="string", optional=True)


class Part(NamedTuple):
    """A field of a struct: its column and schema."""

    column: Column
    schema: schema.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The key or the value that a transform changes. For schemaless values the schema is derived from the values."""

    column: Column
    schema: schema.Schema
    schemaless: bool
    replaces_null: bool = True

    def field(self, name: str) -> Column:
        """A field, or its default if it is null and the transform replaces nulls."""
        value = self.column.getField(name)
        given = self.schema.field(name)
        if self.replaces_null and not self.schemaless and given is not None and given.default is not None:
            return sql.coalesce(value, default_column(given))
        return value

    def part(self, name: str) -> Part | None:
        """A field by name; None if the schema does not have it. Missing fields of schemaless values are null."""
        given = self.schema.field(name)
        if given is not None:
            return Part(self.field(name), given)
        return Part(sql.lit(None).cast("string"), ABSENT) if self.schemaless else None

    def parts(self) -> dict[str, Part]:
        """All fields, in their order."""
        return {field.name: Part(self.field(field.name), field.schema) for field in self.schema.fields}


class FieldTransform(ExpressionTransform):
    """A transform of the key or of the value, with one class for keys and one for values.

    `class CastKey(_Cast, side="key")` stands for Kafka's `Cast$Key`.
    """

    side: ClassVar[str] = "value"
    # True if the transform needs a struct or a schemaless object.
    needs_struct: ClassVar[bool] = False
    # True if null fails instead of passing unchanged.
    refuses_null: ClassVar[bool] = False

    def __init_subclass__(cls, *, side: str | None = None) -> None:
        super().__init_subclass__()
        if side is not None:
            ending = side.capitalize()
            cls.side = side
            cls.aliases = java_transform(f"{cls.__name__.removesuffix(ending)}${ending}")

    @abstractmethod
    def change(self, view: View, frame: DataFrame) -> Changes:
        """The changes to this key or value."""

    def changes(self, frame: DataFrame) -> Changes:
        if self.side not in frame.columns:
            return Changes()
        given = schema.schema_of(frame, self.side)
        view_schema = given if given is not None else schema.schema_from_spark(frame.schema[self.side].dataType)
        replaces = REPLACE_NULL in self.settings and self.settings.flag(REPLACE_NULL)
        view = View(column=sql.col(self.side), schema=view_schema, schemaless=given is None, replaces_null=replaces)
        if self.needs_struct and not view_schema.is_struct:
            return failed_where(
                view.column.isNotNull() | sql.lit(self.refuses_null),
                f"{type(self).__name__} needs a struct or a map, but the {self.side} is {view_schema.type}",
            )
        changes = self.change(view, frame)
        if self.refuses_null:
            null = Failure(view.column.isNull(), sql.lit(f"{type(self).__name__} needs a {self.side} that is not null"))
            changes = Changes(columns=changes.columns, failed=(null, *changes.failed))
        return changes

    def changed(
        self, view: View, column: Column, described: schema.Schema, *, failed: tuple[Failure, ...] = ()
    ) -> Changes:
        """The usual case: only the key or value itself changes."""
        change = Change(column=column, schema=described, schemaless=view.schemaless)
        return Changes(columns={self.side: change}, failed=failed)

    def rebuilt(
        self,
        view: View,
        parts: Mapping[str, Part],
        *,
        like: schema.Schema | None = None,
        failed: tuple[Failure, ...] = (),
    ) -> Changes:
        """The usual case of a struct: only its fields change."""
        return Changes(columns={self.side: struct_of(view, parts, like=like)}, failed=failed)


def replaces_null(definitions: ConfigDefinitions) -> ConfigDefinitions:
    """Adds the setting `replace.null.with.default`."""
    return definitions.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        default=True,
        documentation="Whether a field that is null and has a default gets the default.",
    )


def no_field(name: str) -> Changes:
    """Every record fails: its schema lacks a field that the configuration names."""
    return failed_where(sql.lit(True), f"there is no field {name}")


def struct_of(view: View, parts: Mapping[str, Part], *, like: schema.Schema | None = None) -> Change:
    """The new struct of parts. Its schema has the attributes of `like`.

    Without `like` it has the attributes of the old schema, but is required and has no default, as in most of Kafka's
    transforms.
    """
    columns = [part.column.alias(name) for name, part in parts.items()]
    fields = tuple(schema.Field(name, part.schema) for name, part in parts.items())
    described = like if like is not None else replace(view.schema, optional=False, default=None)
    return Change(
        column=sql.when(view.column.isNotNull(), sql.struct(*columns)),
        schema=replace(described, fields=fields),
        schemaless=view.schemaless,
    )
