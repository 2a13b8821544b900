"""Avro schemas of dataclasses and plain values, and dataclasses from decoded dictionaries."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any

__all__ = ["avro_of_class", "avro_of_value", "to_class"]

_PLAIN: dict[Any, Any] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
    decimal.Decimal: {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    type(None): "null",
}


def avro_of_class(given: type) -> dict[str, Any]:
    """The schema of a dataclass. Raises ValueError for a type that Avro does not have."""
    result = _record(given, set())
    assert isinstance(result, dict)
    return result


def avro_of_value(value: Any) -> Any:
    """The schema of a plain value. Dictionaries need a schema, because their types are unknown."""
    found = _PLAIN.get(type(value))
    if found is None:
        raise ValueError(f"a schema is needed for a value of type {type(value).__name__}")
    return found


def to_class(value: Any, given: Any) -> Any:
    """A decoded value as an instance of its type: dataclasses within dataclasses, lists and maps."""
    if isinstance(given, type) and dataclasses.is_dataclass(given) and isinstance(value, dict):
        hints = typing.get_type_hints(given)
        names = [field.name for field in dataclasses.fields(given) if field.init and field.name in value]
        return given(**{name: to_class(value[name], hints[name]) for name in names})
    if isinstance(given, type) and issubclass(given, enum.Enum) and isinstance(value, str):
        return given[value]
    origin, arguments = typing.get_origin(given), typing.get_args(given)
    if origin in (typing.Union, types.UnionType):
        inner = [each for each in arguments if each is not type(None)]
        return value if value is None or len(inner) != 1 else to_class(value, inner[0])
    if origin is list and isinstance(value, list):
        return [to_class(each, arguments[0]) for each in value]
    if origin is dict and isinstance(value, dict):
        return {key: to_class(each, arguments[1]) for key, each in value.items()}
    return value


def _record(given: type, defined: set[type]) -> Any:
    if given in defined:
        return given.__name__
    defined.add(given)
    hints = typing.get_type_hints(given)
    fields = []
    for field in dataclasses.fields(given):
        avro = _type(hints[field.name], f"{given.__name__}.{field.name}", defined)
        entry: dict[str, Any] = {"name": field.name, "type": avro}
        if field.default is not dataclasses.MISSING and _is_plain_default(field.default, avro):
            entry["default"] = field.default
        elif field.default_factory in (list, dict):
            entry["default"] = [] if field.default_factory is list else {}
        fields.append(entry)
    return {"type": "record", "name": given.__name__, "fields": fields}


def _type(hint: Any, place: str, defined: set[type]) -> Any:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _record(hint, defined)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        if hint in defined:
            return hint.__name__
        defined.add(hint)
        return {"type": "enum", "name": hint.__name__, "symbols": [each.name for each in hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        branches = [_type(each, place, defined) for each in arguments]
        # null comes first, so that None can be the default.
        return sorted(branches, key=lambda branch: branch != "null")
    if origin is list:
        return {"type": "array", "items": _type(arguments[0], place, defined)}
    if origin is dict and arguments[0] is str:
        return {"type": "map", "values": _type(arguments[1], place, defined)}
    raise ValueError(f"{place} has the type {hint}, for which there is no Avro type")


def _is_plain_default(value: Any, avro: Any) -> bool:
    """Whether a default can stand in the schema: one of the first branch, of a type that JSON has."""
    first = avro[0] if isinstance(avro, list) else avro
    kinds: dict[str, tuple[type, ...]] = {
        "null": (type(None),),
        "boolean": (bool,),
        "long": (int,),
        "double": (float, int),
        "string": (str,),
    }
    return isinstance(first, str) and isinstance(value, kinds.get(first, ()))
