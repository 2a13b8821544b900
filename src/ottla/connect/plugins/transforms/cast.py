"""Casts between types with Java's rules: whole numbers wrap, fractions are cut off, text must be a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, Importance, NonEmpty, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.json import default_as
from ottla.connect.plugins.converters.text import text_of
from ottla.connect.plugins.transforms.base import Changes, Failure, failed_where
from ottla.connect.plugins.transforms.structs import FieldTransform, Part, View, replaces_null

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CastKey", "CastValue"]

# Names in specifications, and in Connect's JSON.
KINDS = {
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float32": "float",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
}
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
INT_MAX = 2**31 - 1


class _Cast(FieldTransform):
    """Gives fields, or the whole key or value, another type."""

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return replaces_null(
            ConfigDefinitions().define(
                "spec",
                ConfigType.LIST,
                importance=Importance.HIGH,
                validator=NonEmpty(),
                documentation="Pairs field:type, or one type for the whole. Types: " + ", ".join(KINDS) + ".",
            )
        )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._whole, self._fields = _parse(self.settings.texts("spec"))

    def change(self, view: View, frame: DataFrame) -> Changes:
        if self._whole is not None:
            column, failed = cast(view.column, view.schema, self._whole)
            described = replace(view.schema, type=self._whole, default=default_as(view.schema, self._whole))
            if view.schema.name in schema.LOGICAL:
                described = replace(described, name=None, version=None, parameters=None)
            return self.changed(view, column, described, failed=failed)
        if not view.schema.is_struct:
            message = f"{type(self).__name__} with fields needs a struct or a map, not {view.schema.type}"
            return failed_where(view.column.isNotNull(), message)
        return self._change_fields(view)

    def _change_fields(self, view: View) -> Changes:
        parts = view.parts()
        failed: tuple[Failure, ...] = ()
        for name, (column, given) in view.parts().items():
            kind = self._fields.get(name)
            if kind is not None:
                described = schema.Schema(type=kind, optional=given.optional, default=default_as(given, kind))
                changed, failures = cast(column, given, kind)
                parts[name] = Part(changed, described)
                failed += failures
        if view.schemaless:
            for name, kind in self._fields.items():
                absent = schema.Schema(type=kind, optional=True)
                parts.setdefault(name, Part(sql.lit(None).cast(schema.spark_type(absent)), absent))
        return self.rebuilt(view, parts, like=replace(view.schema, default=None), failed=failed)


class CastKey(_Cast, side="key"):
    """Gives the key or its fields another type."""


class CastValue(_Cast, side="value"):
    """Gives the value or its fields another type."""


def cast(column: Column, given: schema.Schema, kind: str) -> tuple[Column, tuple[Failure, ...]]:
    """A column in another primitive type, and the failures of values that cannot be cast."""
    if kind == "string":
        if given.type in ("array", "map", "struct"):
            return _refused(column, given, kind)
        return _java_text(column, given), ()
    if given.type == "variant":
        given, column = schema.Schema(type="string", optional=True), column.try_cast("string")
    if given.type == "string":
        return _from_text(column, kind)
    if given.type == "boolean":
        return (column, ()) if kind == "boolean" else (_typed(column.cast("int"), kind), ())
    number = _number(column, given)
    if number is None:
        return _refused(column, given, kind)
    is_floating = given.type in ("float", "double")
    if kind == "boolean":
        return _to_whole(number, 64, is_floating=is_floating) != 0, ()
    if kind in BITS:
        whole = _to_whole(number, 64 if kind == "int64" else 32, is_floating=is_floating)
        return _typed(_wrapped(whole, BITS[kind]), kind), ()
    return number.cast("float" if kind == "float" else "double"), ()


def _parse(specifications: list[str]) -> tuple[str | None, dict[str, str]]:
    whole, fields = None, {}
    for specification in specifications:
        name, colon, kind = specification.rpartition(":")
        if kind.strip().lower() not in KINDS:
            raise ConfigError(f"spec names the type '{kind}', which is none of {', '.join(KINDS)}.", name="spec")
        if not colon:
            whole = KINDS[kind.strip().lower()]
        else:
            fields[name.strip()] = KINDS[kind.strip().lower()]
    if whole is not None and len(specifications) > 1:
        raise ConfigError("spec casts the whole or fields, not both.", name="spec")
    return whole, fields


def _number(column: Column, given: schema.Schema) -> Column | None:
    """The number that represents a value; None if no number does."""
    if given.name == schema.DATE:
        return sql.unix_date(column)
    if given.name == schema.TIMESTAMP:
        return sql.unix_millis(column)
    if given.name == schema.DECIMAL or given.type in schema.NUMBERS:
        return column
    return None


def _to_whole(number: Column, bits: int, *, is_floating: bool) -> Column:
    """A whole number: cut off towards zero and held within the range, as Java casts floating point; NaN is 0."""
    limit = 2**63 if bits == 64 else 2**31
    double = number.cast("double")
    bound = (
        sql.when(sql.isnan(double), sql.lit(0).cast("bigint"))
        .when(double >= float(limit), sql.lit(limit - 1).cast("bigint"))
        .when(double <= -float(limit), sql.lit(-limit).cast("bigint"))
    )
    whole = number.try_cast("bigint")
    # Floating point is held within 32 bits, too. Other numbers keep all digits that 64 bits can hold.
    return sql.coalesce(bound, whole) if is_floating else sql.coalesce(whole, bound)


def _wrapped(number: Column, bits: int) -> Column:
    """The low bits of a 64-bit number, as a signed number."""
    if bits == 64:
        return number
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    low = number.bitwiseAND(sql.lit(mask).cast("bigint"))
    return low.bitwiseXOR(sql.lit(sign).cast("bigint")) - sql.lit(sign).cast("bigint")


def _from_text(column: Column, kind: str) -> tuple[Column, tuple[Failure, ...]]:
    if kind == "string":
        return column, ()
    if kind == "boolean":
        return sql.lower(column) == "true", ()
    if kind in BITS:
        value = sql.when(column.rlike(r"^[+-]?[0-9]+\z"), column.try_cast(_name(kind)))
    else:
        value = column.try_cast(_name(kind))
    message = sql.concat(column, sql.lit(f" cannot be cast to {kind}"))
    return value, (Failure(column.isNotNull() & value.isNull(), message),)


def _java_text(column: Column, given: schema.Schema) -> Column:
    if given.name == schema.TIMESTAMP:
        # Midnights are written as dates, times of the first day as times: java.util.Date does not distinguish them.
        millis = sql.unix_millis(column)
        whole_day = text_of(sql.date_from_unix_date(sql.floor(millis / 86_400_000).cast("int")), DATE_SCHEMA)
        return (
            sql.when(sql.abs(millis) < 86_400_000, text_of(sql.pmod(millis, sql.lit(86_400_000)), TIME_SCHEMA))
            .when(millis % 86_400_000 == 0, whole_day)
            .otherwise(text_of(column, given))
        )
    return text_of(column, given)


def _refused(column: Column, given: schema.Schema, kind: str) -> tuple[Column, tuple[Failure, ...]]:
    message = sql.lit(f"{given.name or given.type} cannot be cast to {kind}")
    return sql.lit(None).cast(_name(kind)), (Failure(column.isNotNull(), message),)


def _typed(column: Column, kind: str) -> Column:
    return column.cast(_name(kind))


def _name(kind: str) -> str:
    return schema.spark_type(schema.Schema(type=kind)).simpleString()


DATE_SCHEMA = schema.Schema(type="int32", name=schema.DATE, version=1)
TIME_SCHEMA = schema.Schema(type="int32", name=schema.TIME, version=1)
