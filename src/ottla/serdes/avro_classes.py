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


def avro_of_class(record_class: type) -> dict[str, Any]:
    """The schema of a dataclass. Raises ValueError for a type that Avro does not have."""
    result = _record(record_class, set())
    assert isinstance(result, dict)
    return result


def avro_of_value(value: Any) -> Any:
    """The schema of a plain value. Dictionaries need a schema, because their types are unknown."""
    avro = _PLAIN.get(type(value))
    if avro is None:
        raise ValueError(f"a schema is needed for a value of type {type(value).__name__}")
    return avro


def to_class(value: Any, target: Any) -> Any:
    """A decoded value as an instance of its type: dataclasses within dataclasses, lists and maps."""
    if isinstance(target, type) and dataclasses.is_dataclass(target) and isinstance(value, dict):
        hints = typing.get_type_hints(target)
        names = [field.name for field in dataclasses.fields(target) if field.init and field.name in value]
        return target(**{name: to_class(value[name], hints[name]) for name in names})
    if isinstance(target, type) and issubclass(target, enum.Enum) and isinstance(value, str):
        return target[value]
    origin, arguments = typing.get_origin(target), typing.get_args(target)
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        return value if value is None or len(inner) != 1 else to_class(value, inner[0])
    if origin is list and isinstance(value, list):
        return [to_class(element, arguments[0]) for element in value]
    if origin is dict and isinstance(value, dict):
        return {key: to_class(element, arguments[1]) for key, element in value.items()}
    return value


def _record(record_class: type, defined: set[type]) -> Any:
    if record_class in defined:
        return record_class.__name__
    defined.add(record_class)
    hints = typing.get_type_hints(record_class)
    fields = []
    for field in dataclasses.fields(record_class):
        avro = _type(hints[field.name], f"{record_class.__name__}.{field.name}", defined)
        entry: dict[str, Any] = {"name": field.name, "type": avro}
        if field.default is not dataclasses.MISSING and _is_plain_default(field.default, avro):
            entry["default"] = field.default
        elif field.default_factory in (list, dict):
            entry["default"] = [] if field.default_factory is list else {}
        fields.append(entry)
    return {"type": "record", "name": record_class.__name__, "fields": fields}


def _type(hint: Any, path: str, defined: set[type]) -> Any:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _record(hint, defined)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        if hint in defined:
            return hint.__name__
        defined.add(hint)
        return {"type": "enum", "name": hint.__name__, "symbols": [member.name for member in hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        branches = [_type(argument, path, defined) for argument in arguments]
        # null comes first, so that None can be the default.
        return sorted(branches, key=lambda branch: branch != "null")
    if origin is list:
        return {"type": "array", "items": _type(arguments[0], path, defined)}
    if origin is dict and arguments[0] is str:
        return {"type": "map", "values": _type(arguments[1], path, defined)}
    raise ValueError(f"{path} has the type {hint}, for which there is no Avro type")


def _is_plain_default(value: Any, avro: Any) -> bool:
    """True if the schema can have this default: its type is that of the first branch, and JSON has this type."""
    first = avro[0] if isinstance(avro, list) else avro
    kinds: dict[str, tuple[type, ...]] = {
        "null": (type(None),),
        "boolean": (bool,),
        "long": (int,),
        "double": (float, int),
        "string": (str,),
    }
    return isinstance(first, str) and isinstance(value, kinds.get(first, ()))
