"""Protobuf files that every registry and its clients have without registering them: Confluent's tags and decimals."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["provided_file"]

_STRING, _BYTES, _UINT32, _INT32 = 9, 12, 13, 5
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3
# The number of the extension in the options of each kind of definition.
_META = 1088
_OWNERS = {
    "file_meta": "FileOptions",
    "message_meta": "MessageOptions",
    "field_meta": "FieldOptions",
    "enum_meta": "EnumOptions",
    "enum_value_meta": "EnumValueOptions",
}


@cache
def provided_file(name: str) -> Any:
    """The descriptor of a file, or None."""
    if name == "confluent/meta.proto":
        return _meta()
    if name == "confluent/type/decimal.proto":
        return _plain(name, "Decimal", [("value", _BYTES), ("precision", _UINT32), ("scale", _INT32)])
    if name == "confluent/type/variant.proto":
        return _plain(name, "Variant", [("metadata", _BYTES), ("value", _BYTES)])
    if name == "confluent/types/decimal.proto":
        file = _file(name, "")
        file.dependency.append("confluent/type/decimal.proto")
        file.public_dependency.append(0)
        return file
    return None


def _file(name: str, package: str) -> Any:
    from google.protobuf import descriptor_pb2

    return descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")


def _plain(name: str, message: str, fields: list[tuple[str, int]]) -> Any:
    file = _file(name, "confluent.type")
    descriptor = file.message_type.add(name=message)
    for number, (field, kind) in enumerate(fields, start=1):
        descriptor.field.add(name=field, number=number, type=kind, label=_OPTIONAL)
    return file


def _meta() -> Any:
    file = _file("confluent/meta.proto", "confluent")
    file.dependency.append("google/protobuf/descriptor.proto")
    meta = file.message_type.add(name="Meta")
    meta.field.add(name="doc", number=1, type=_STRING, label=_OPTIONAL)
    params = ".confluent.Meta.ParamsEntry"
    meta.field.add(name="params", number=2, type=_MESSAGE, label=_REPEATED, type_name=params)
    meta.field.add(name="tags", number=3, type=_STRING, label=_REPEATED)
    meta.field.add(name="rules", number=4, type=_MESSAGE, label=_REPEATED, type_name=".confluent.Rule")
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    rule = file.message_type.add(name="Rule")
    for message, fields in ((entry, ("key", "value")), (rule, ("name", "doc", "expr", "sql"))):
        for number, field in enumerate(fields, start=1):
            message.field.add(name=field, number=number, type=_STRING, label=_OPTIONAL)
    for field, owner in _OWNERS.items():
        extendee = f".google.protobuf.{owner}"
        kind = ".confluent.Meta"
        file.extension.add(name=field, number=_META, type=_MESSAGE, label=_OPTIONAL, extendee=extendee, type_name=kind)
    return file
