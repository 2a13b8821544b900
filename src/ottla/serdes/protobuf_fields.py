"""The fields of Protobuf messages, for rules, and messages as plain values.

Names and tags come from the schema in the registry, values from the message. The two may have been compiled from
different versions, so fields are matched by their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from ottla.serdes.rules.contracts import Field, FieldKind, FieldTransform, FieldWalk, RuleFailed

__all__ = ["message_of", "plain_message", "protobuf_walk"]

# The extension of field options that holds tags (confluent/meta.proto).
_FIELD_META = 1088
# The numbers of types in descriptors (FieldDescriptorProto.Type).
_MESSAGE, _ENUM = (10, 11), 14
_KINDS = {
    1: FieldKind.DOUBLE,
    2: FieldKind.FLOAT,
    8: FieldKind.BOOLEAN,
    9: FieldKind.STRING,
    12: FieldKind.BYTES,
    14: FieldKind.ENUM,
    **dict.fromkeys((3, 4, 6, 16, 18), FieldKind.LONG),
    **dict.fromkeys((5, 7, 13, 15, 17), FieldKind.INT),
}


def protobuf_walk(descriptor: Any) -> FieldWalk:
    """The walk for messages whose schema has this descriptor."""

    def walk(value: Any, transform: FieldTransform) -> Any:
        copy = type(value)()
        copy.CopyFrom(value)
        _visit(descriptor, copy, transform)
        return copy

    return walk


def plain_message(message: Any) -> dict[str, Any]:
    """The fields that are set, and the fields without presence, by name."""
    fields: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        content = getattr(message, field.name)
        if _is_map(field):
            content = {str(key): _plain(content[key]) for key in content}
        elif field.is_repeated:
            content = [_plain(element) for element in content]
        fields[field.name] = _plain(content)
    return fields


def message_of(message_class: Any, fields: Any) -> Any:
    """A message with these fields. Raises RuleFailed."""
    if not isinstance(fields, Mapping):
        raise RuleFailed(f"the result {fields!r} is not a map of the fields of {message_class.DESCRIPTOR.full_name}")
    try:
        return message_class(**{name: content for name, content in fields.items() if content is not None})
    except (ValueError, TypeError) as error:
        raise RuleFailed(f"the result is not a {message_class.DESCRIPTOR.full_name}: {error}") from error


def _visit(descriptor: Any, message: Any, transform: FieldTransform) -> None:
    for field in message.DESCRIPTOR.fields:
        schema_field = descriptor.fields_by_number.get(field.number)
        if schema_field is None or (field.has_presence and not message.HasField(field.name)):
            continue
        _visit_field(schema_field, field, message, transform)


def _visit_field(schema_field: Any, field: Any, message: Any, transform: FieldTransform) -> None:
    content = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        if inner.type in _MESSAGE:
            for key in content:
                _visit(schema_field.message_type.fields_by_name["value"].message_type, content[key], transform)
            return
        leaf = _field(schema_field, inner, message)
        changed = {key: transform(leaf, content[key]) for key in content}
        message.ClearField(field.name)
        getattr(message, field.name).update(changed)
    elif field.type in _MESSAGE:
        for element in content if field.is_repeated else [content]:
            _visit(schema_field.message_type, element, transform)
    elif field.is_repeated:
        leaf = _field(schema_field, field, message)
        content[:] = [transform(leaf, element) for element in content]
    else:
        setattr(message, field.name, transform(_field(schema_field, field, message), content))


def _field(schema_field: Any, field: Any, message: Any) -> Field:
    return Field(schema_field.full_name, schema_field.name, _KINDS[field.type], _tags(schema_field), message)


def _is_map(field: Any) -> bool:
    return bool(field.type in _MESSAGE and field.message_type.GetOptions().map_entry)


def _plain(content: Any) -> Any:
    return plain_message(content) if hasattr(content, "DESCRIPTOR") else content


# A cached descriptor keeps the pool of its schema, so the number of fields is limited.
@lru_cache(maxsize=10_000)
def _tags(field: Any) -> frozenset[str]:
    options = _options_class().FromString(field.GetOptions().SerializeToString())
    return frozenset(options.meta.tags)


@cache
def _options_class() -> Any:
    """A view of field options with the extension for tags, so that confluent/meta.proto is not needed."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    proto = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="ottla/field_meta.proto", package="ottla", syntax="proto3")
    meta = file.message_type.add(name="Meta")
    meta.field.add(name="tags", number=3, type=proto.TYPE_STRING, label=proto.LABEL_REPEATED)
    view = file.message_type.add(name="FieldMetaView")
    view.field.add(
        name="meta", number=_FIELD_META, type=proto.TYPE_MESSAGE, label=proto.LABEL_OPTIONAL, type_name=".ottla.Meta"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ottla.FieldMetaView"))
