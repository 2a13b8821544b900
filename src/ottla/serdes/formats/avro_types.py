"""An Avro schema as a graph of types, and its text as Java's library prints it.

Registries of Confluent store the text that Java prints: attributes in a fixed order, a type without attributes as its
bare name, a namespace only where it changes. Ids and GUIDs follow from this text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.serdes.formats.base import InvalidSchema

__all__ = ["PRIMITIVES", "AvroField", "AvroType", "build", "printed"]

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Attributes with a meaning; all others are kept as properties of the type.
_KNOWN = {
    "record": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "error": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "enum": {"type", "name", "namespace", "doc", "symbols", "default", "aliases"},
    "fixed": {"type", "name", "namespace", "doc", "size", "aliases"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_FIELD_KNOWN = {"name", "type", "doc", "default", "order", "aliases"}
_DEPTH_MAX = 200


@dataclass(slots=True)
class AvroField:
    name: str
    type: AvroType
    has_default: bool
    default: Any
    doc: str | None
    order: str
    aliases: tuple[str, ...]
    properties: dict[str, Any]


@dataclass(slots=True, eq=False)
class AvroType:
    kind: str
    # The full name of a record, enum or fixed.
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    size: int = 0
    # Items of an array, values of a map.
    inner: AvroType | None = None
    branches: list[AvroType] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def label(self) -> str:
        return self.name or self.kind


def build(avro: Any, named: dict[str, AvroType], namespace: str = "", depth: int = 0) -> AvroType:
    """The graph of a parsed JSON text. `named` has the referenced types; the types of the schema are added to it."""
    if depth > _DEPTH_MAX:
        raise InvalidSchema(f"The schema is nested more than {_DEPTH_MAX} levels deep.")
    if isinstance(avro, str):
        return _named_type(avro, named, namespace)
    if isinstance(avro, list):
        return _union(avro, named, namespace, depth)
    if not isinstance(avro, dict):
        raise InvalidSchema(f"{json.dumps(avro)} is not a type: a type is a name, a list or an object.")
    kind = avro.get("type")
    if isinstance(kind, dict | list):
        return build(kind, named, namespace, depth + 1)
    if not isinstance(kind, str):
        raise InvalidSchema(f"The type of {json.dumps(avro)[:100]} is missing.")
    if kind in ("record", "error", "enum", "fixed"):
        return _definition(kind, avro, named, namespace, depth)
    properties = {key: value for key, value in avro.items() if key not in _KNOWN.get(kind, {"type"})}
    if kind in ("array", "map"):
        inside = "items" if kind == "array" else "values"
        if inside not in avro:
            raise InvalidSchema(f"The {kind} has no {inside}.")
        inner = build(avro[inside], named, namespace, depth + 1)
        return AvroType(kind, inner=inner, properties=properties)
    if kind in PRIMITIVES:
        return AvroType(kind, properties=properties)
    return _named_type(kind, named, namespace)


def printed(avro_type: AvroType, known: set[str] | None = None) -> str:
    """The text of a schema. Types in `known` are defined elsewhere, and are printed as their names."""
    value = _printable(avro_type, set() if known is None else set(known), "")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _named_type(name: str, named: Mapping[str, AvroType], namespace: str) -> AvroType:
    if name in PRIMITIVES:
        return AvroType(name)
    full = f"{namespace}.{name}" if namespace and "." not in name else name
    avro_type = named.get(full) or named.get(name)
    if avro_type is None:
        raise InvalidSchema(f"The type {full} is not defined.")
    return avro_type


def _union(avro: list[Any], named: dict[str, AvroType], namespace: str, depth: int) -> AvroType:
    branches = [build(branch, named, namespace, depth + 1) for branch in avro]
    labels = [branch.label for branch in branches]
    if "union" in labels:
        raise InvalidSchema("A union may not contain a union.")
    duplicates = {label for label, count in Counter(labels).items() if count > 1}
    if duplicates:
        raise InvalidSchema(f"The union has {', '.join(sorted(duplicates))} twice.")
    return AvroType("union", branches=branches)


def _definition(kind: str, avro: dict[str, Any], named: dict[str, AvroType], namespace: str, depth: int) -> AvroType:
    name = _full_name(avro, namespace, kind)
    if name in named:
        raise InvalidSchema(f"The type {name} is defined twice.")
    inside = name.rpartition(".")[0]
    aliases = tuple(f"{inside}.{alias}" if inside and "." not in alias else alias for alias in _texts(avro, "aliases"))
    properties = {key: value for key, value in avro.items() if key not in _KNOWN[kind]}
    result = AvroType(kind, name=name, doc=avro.get("doc"), aliases=aliases, properties=properties)
    named[name] = result
    if kind == "enum":
        _enum(result, avro)
    elif kind == "fixed":
        size = avro.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidSchema(f"The fixed {name} has no size.")
        result.size = size
    else:
        fields = avro.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"The record {name} has no fields.")
        names: set[str] = set()
        for definition in fields:
            _add_field(result, definition, named, inside, depth)
            field_name = result.fields[-1].name
            if field_name in names:
                raise InvalidSchema(f"The record {name} has the field {field_name} twice.")
            names.add(field_name)
    return result


def _enum(result: AvroType, avro: dict[str, Any]) -> None:
    symbols = _texts(avro, "symbols")
    if "symbols" not in avro or len(set(symbols)) != len(symbols):
        raise InvalidSchema(f"The symbols of the enum {result.name} are missing, or one of them is there twice.")
    for symbol in symbols:
        if not _NAME.match(symbol):
            raise InvalidSchema(f"{symbol!r} is not a valid symbol of the enum {result.name}.")
    result.symbols = tuple(symbols)
    result.default_symbol = avro.get("default")
    if result.default_symbol is not None and result.default_symbol not in symbols:
        raise InvalidSchema(f"The default {result.default_symbol!r} is not a symbol of the enum {result.name}.")


def _add_field(record: AvroType, avro: Any, named: dict[str, AvroType], namespace: str, depth: int) -> None:
    if not isinstance(avro, dict) or not isinstance(avro.get("name"), str) or "type" not in avro:
        raise InvalidSchema(f"A field of the record {record.name} has no name or no type.")
    name = avro["name"]
    if not _NAME.match(name):
        raise InvalidSchema(f"{name!r} is not a valid name of a field of the record {record.name}.")
    order = str(avro.get("order", "ascending")).lower()
    if order not in ("ascending", "descending", "ignore"):
        raise InvalidSchema(f"The order of the field {name} of {record.name} is {order!r}.")
    record.fields.append(
        AvroField(
            name=name,
            type=build(avro["type"], named, namespace, depth + 1),
            has_default="default" in avro,
            default=avro.get("default"),
            doc=avro.get("doc"),
            order=order,
            aliases=tuple(_texts(avro, "aliases")),
            properties={key: value for key, value in avro.items() if key not in _FIELD_KNOWN},
        )
    )


def _full_name(avro: dict[str, Any], namespace: str, kind: str) -> str:
    name = avro.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"A {kind} has no name.")
    own_namespace = avro.get("namespace")
    if "." in name:
        full = name
    else:
        space = namespace if own_namespace is None else str(own_namespace)
        full = f"{space}.{name}" if space else name
    if not all(_NAME.match(part) for part in full.split(".")) or full in PRIMITIVES:
        raise InvalidSchema(f"{full!r} is not a valid name of a {kind}.")
    return full


def _texts(avro: dict[str, Any], key: str) -> list[str]:
    value = avro.get(key, [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidSchema(f"{key} is not a list of names.")
    return value


def _printable(avro_type: AvroType, known: set[str], namespace: str) -> Any:
    if avro_type.kind == "union":
        return [_printable(branch, known, namespace) for branch in avro_type.branches]
    if avro_type.kind in PRIMITIVES:
        return {"type": avro_type.kind, **avro_type.properties} if avro_type.properties else avro_type.kind
    if avro_type.kind in ("array", "map"):
        assert avro_type.inner is not None
        inside = "items" if avro_type.kind == "array" else "values"
        return {"type": avro_type.kind, inside: _printable(avro_type.inner, known, namespace), **avro_type.properties}
    if avro_type.name in known:
        return avro_type.short_name if avro_type.namespace in ("", namespace) else avro_type.name
    known.add(avro_type.name)
    result: dict[str, Any] = {"type": avro_type.kind, "name": avro_type.short_name}
    if avro_type.namespace != namespace:
        result["namespace"] = avro_type.namespace
    if avro_type.doc is not None:
        result["doc"] = avro_type.doc
    if avro_type.kind == "enum":
        result["symbols"] = list(avro_type.symbols)
        if avro_type.default_symbol is not None:
            result["default"] = avro_type.default_symbol
    elif avro_type.kind == "fixed":
        result["size"] = avro_type.size
    else:
        result["fields"] = [_printable_field(avro_field, known, avro_type.namespace) for avro_field in avro_type.fields]
    result.update(avro_type.properties)
    if avro_type.aliases:
        result["aliases"] = [_relative(alias, avro_type.namespace) for alias in avro_type.aliases]
    return result


def _printable_field(avro_field: AvroField, known: set[str], namespace: str) -> dict[str, Any]:
    result: dict[str, Any] = {"name": avro_field.name, "type": _printable(avro_field.type, known, namespace)}
    if avro_field.doc is not None:
        result["doc"] = avro_field.doc
    if avro_field.has_default:
        result["default"] = avro_field.default
    if avro_field.order != "ascending":
        result["order"] = avro_field.order
    if avro_field.aliases:
        result["aliases"] = list(avro_field.aliases)
    result.update(avro_field.properties)
    return result


def _relative(name: str, namespace: str) -> str:
    space, _, short = name.rpartition(".")
    return short if space == namespace else name
