"""The columns of a typed Delta table follow its subject.

The library adds columns, and neither renames nor widens them. So integers are long and floating-point numbers double
from the beginning, and a renamed field gets a column of its new name beside the old one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.lake.columns import META_SCHEMA
from ottla.lake.evolution import RENAMED, cannot_follow, known_names

if TYPE_CHECKING:
    from ottla.lake.subjects import SubjectSchema

__all__ = ["delta_columns", "evolve_delta"]


def delta_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a schema as a Delta table has them."""
    if "_offset" not in schema.names:
        return schema
    return pa.schema([field if field.name in META_SCHEMA.names else _widened_field(field) for field in schema])


def evolve_delta(
    table: Any, present: pa.Schema, renamed: Mapping[str, str], subject: SubjectSchema, *, name: str
) -> bool:
    """Changes the columns of the table, if necessary; True if the table has changed. Raises LakeError if it cannot."""
    from deltalake import Schema
    from deltalake.exceptions import SchemaMismatchError

    changed = []
    for field in delta_columns(subject.columns):
        index = present.get_field_index(field.name)
        if index < 0 or _gets_fields(present.field(index).type, field.type):
            changed.append(field)
        elif not _fits(field.type, present.field(index).type):
            raise cannot_follow(name, subject, f"{field.name} was {present.field(index).type} and is {field.type} now.")
    if changed:
        try:
            table.alter.add_columns(Schema.from_arrow(pa.schema(changed)).fields)
        except SchemaMismatchError as error:
            raise cannot_follow(name, subject, str(error)) from error
    known = known_names(renamed, subject)
    if known != renamed:
        table.alter.set_table_properties({RENAMED: json.dumps(known)}, raise_if_not_exists=False)
    return bool(changed) or known != renamed


def _widened_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _widened(field.type), field.nullable)


def _widened(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(arrow):
        return pa.int64()
    if pa.types.is_floating(arrow):
        return pa.float64()
    if pa.types.is_struct(arrow):
        return pa.struct([_widened_field(field) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(_widened(arrow.key_type), _widened_field(arrow.item_field))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return pa.list_(_widened_field(arrow.value_field))
    return arrow


def _gets_fields(before: pa.DataType, after: pa.DataType) -> bool:
    """True for an inner record that gets new fields and whose old fields are unchanged."""
    if not pa.types.is_struct(before) or not pa.types.is_struct(after):
        return False
    old = {field.name: field.type for field in before}
    return any(field.name not in old for field in after) and all(
        _fits(field.type, old[field.name]) or _gets_fields(old[field.name], field.type)
        for field in after
        if field.name in old
    )


def _fits(value: pa.DataType, column: pa.DataType) -> bool:
    """True if the column can hold values of the type. The column may have further fields, which values have lost."""
    if pa.types.is_struct(value) and pa.types.is_struct(column):
        known = {field.name: field.type for field in column}
        return all(field.name in known and _fits(field.type, known[field.name]) for field in value)
    if pa.types.is_map(value) and pa.types.is_map(column):
        return _fits(value.key_type, column.key_type) and _fits(value.item_type, column.item_type)
    if _is_list(value) and _is_list(column):
        return _fits(value.value_type, column.value_type)
    return _plain(value) == _plain(column)


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _plain(arrow: pa.DataType) -> pa.DataType:
    """The basic type, for types that differ in memory alone."""
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return pa.string()
    if pa.types.is_large_binary(arrow) or pa.types.is_binary_view(arrow):
        return pa.binary()
    return arrow
