"""Values of columns from decoded values, and back: the forms of structs, maps and messages in Arrow."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

__all__ = ["column_value", "fill_message", "json_value", "message_value", "plain_value", "values_with_problems"]


def column_value(value: Any, spark_type: Any) -> Any:
    """A decoded value for a column of this type: maps as pairs, missing fields as null, other JSON as text."""
    from pyspark.sql import types as spark

    if value is None:
        return None
    if isinstance(spark_type, spark.StructType):
        return {field.name: column_value(value.get(field.name), field.dataType) for field in spark_type.fields}
    if isinstance(spark_type, spark.ArrayType):
        return [column_value(element, spark_type.elementType) for element in value]
    if isinstance(spark_type, spark.MapType):
        return [(key, column_value(map_value, spark_type.valueType)) for key, map_value in value.items()]
    if isinstance(spark_type, spark.StringType) and not isinstance(value, str):
        is_json = isinstance(value, dict | list | bool | int | float)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if is_json else str(value)
    if isinstance(spark_type, spark.LongType) and isinstance(value, float):
        return int(value)
    return value


def plain_value(value: Any, arrow_type: Any) -> Any:
    """A value of an Arrow array for a serializer: maps, which Arrow gives as pairs, as dictionaries."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_map(arrow_type):
        return {key: plain_value(map_value, arrow_type.item_type) for key, map_value in value}
    if types.is_struct(arrow_type):
        return {field.name: plain_value(value[field.name], field.type) for field in arrow_type}
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return [plain_value(element, arrow_type.value_type) for element in value]
    return value


def message_value(message: Any) -> Any:
    """A Protobuf message as a dictionary with the types of `protobuf_type`."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        return message.ToDatetime(tzinfo=datetime.UTC)
    fields: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            kind = inner.fields_by_name["value"]
            fields[field.name] = {key: _single(map_value, kind) for key, map_value in value.items()}
        elif field.is_repeated:
            fields[field.name] = [_single(element, field) for element in value]
        elif field.has_presence and not message.HasField(field.name):
            fields[field.name] = None
        else:
            fields[field.name] = _single(value, field)
    return fields


def fill_message(message: Any, value: dict[str, Any]) -> Any:
    """The message with the fields of a dictionary; null leaves a field unset. Raises ValueError or TypeError."""
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        return ParseDict(json_value(value), message)
    except ParseError as error:
        raise ValueError(str(error)) from error


def _single(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return message_value(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def json_value(value: Any) -> Any:
    """A value in JSON form: bytes in base64, times in ISO 8601, decimals as numbers; null fields are left out."""
    import base64

    if isinstance(value, dict):
        return {name: json_value(field_value) for name, field_value in value.items() if field_value is not None}
    if isinstance(value, list):
        return [json_value(element) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return float(value) if isinstance(value, decimal.Decimal) else value


def values_with_problems(rows: list[dict[str, Any]], arrow_type: Any) -> Any:
    """The Arrow array of rows with a `value` and a `problem`.

    A value that the type cannot hold, such as an integer of 65 bits, is replaced by a problem.
    """
    import pyarrow

    def fitting(row: dict[str, Any]) -> dict[str, Any]:
        try:
            pyarrow.array([row], type=arrow_type)
        except (pyarrow.ArrowException, ValueError, OverflowError) as error:
            # A ValueError comes from text that is not UTF-8: JSON may escape half of a surrogate pair.
            return {"value": None, "problem": f"the value does not fit its type: {error}"}
        return row

    try:
        return pyarrow.array(rows, type=arrow_type)
    except (pyarrow.ArrowException, ValueError, OverflowError):
        return pyarrow.array([fitting(row) for row in rows], type=arrow_type)
