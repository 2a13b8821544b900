"""Decoded values of records as values of Arrow columns."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import types

__all__ = ["fitting_value"]


def fitting_value(value: Any, arrow: pa.DataType) -> Any:
    """A decoded value for a column of this type: maps as pairs, missing fields as null, other JSON as text.

    Raises ValueError for a number that is not an integer in a column of integers.
    """
    if value is None:
        return None
    if types.is_struct(arrow):
        get = value.get
        return {field.name: fitting_value(get(field.name), field.type) for field in arrow}
    if types.is_list(arrow) or types.is_large_list(arrow):
        return [fitting_value(element, arrow.value_type) for element in value]
    if types.is_map(arrow):
        return [(key, fitting_value(element, arrow.item_type)) for key, element in value.items()]
    if (types.is_string(arrow) or types.is_large_string(arrow)) and not isinstance(value, str):
        is_json = isinstance(value, dict | list | bool | int | float)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if is_json else str(value)
    if types.is_integer(arrow) and isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{value} is not an integer, and its column has integers.")
        return int(value)
    return value
