"""Custom options: extensions of the options of files, messages, fields and enums, such as `(confluent.field_meta)`.

A text has these options by name, a compiled descriptor by number. A translation needs the files that define them.
Options that no known file defines stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import descriptor_pool, message_factory, text_format

__all__ = ["message_literal", "options_as_numbers", "options_as_text"]

Files = Mapping[str, pb.FileDescriptorProto]


def options_as_numbers(file: pb.FileDescriptorProto, imported: Iterable[pb.FileDescriptorProto]) -> None:
    """Sets the custom options that the text has by name."""
    owners = [
        options
        for options in _all_options(file)
        if any(option.name[0].is_extension for option in options.uninterpreted_option)
    ]
    pool = _pool(file, imported) if owners else None
    for options in owners if pool is not None else ():
        kept = []
        for option in options.uninterpreted_option:
            data = _compiled(pool, options, option, file.package)
            if data is None:
                kept.append(pb.UninterpretedOption.FromString(option.SerializeToString()))
            else:
                options.MergeFromString(data)
        del options.uninterpreted_option[:]
        options.uninterpreted_option.extend(kept)


def options_as_text(file: pb.FileDescriptorProto, imported: Iterable[pb.FileDescriptorProto]) -> None:
    """Names the custom options that a compiled descriptor has by number."""
    owners = [options for options in _all_options(file) if _has_unknown(options)]
    pool = _pool(file, imported) if owners else None
    for options in owners if pool is not None else ():
        known = _class(pool, options).FromString(options.SerializeToString())
        extensions = [(field, value) for field, value in known.ListFields() if field.is_extension]
        for field, value in extensions:
            for element in value if field.is_repeated else [value]:
                option = options.uninterpreted_option.add()
                option.name.add(name_part=field.full_name, is_extension=True)
                _set_value(option, field, element)
        # If the process has imported generated code, the extensions are known fields and not unknown ones.
        for field in [field for field, _ in options.ListFields() if field.is_extension]:
            options.ClearExtension(field)
        options.DiscardUnknownFields()


def _all_options(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.name == "options":
            yield value
        elif field.name != "uninterpreted_option":
            for element in value if field.is_repeated else [value]:
                yield from _all_options(element)


def _has_unknown(options: Any) -> bool:
    copy = type(options)()
    copy.CopyFrom(options)
    copy.DiscardUnknownFields()
    return bool(copy.ByteSize() != options.ByteSize() or any(field.is_extension for field, _ in options.ListFields()))


def _pool(file: pb.FileDescriptorProto, imported: Iterable[pb.FileDescriptorProto]) -> Any:
    """A pool with the files that may define options. None if a file is missing in it."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(pb.DESCRIPTOR.serialized_pb)
    bare = pb.FileDescriptorProto.FromString(file.SerializeToString())
    for options in list(_all_options(bare)):
        is_map_entry = getattr(options, "map_entry", False)
        options.Clear()
        if is_map_entry:
            options.map_entry = True
    try:
        for proto in (*imported, bare):
            if proto.name != pb.DESCRIPTOR.name:
                pool.AddSerializedFile(proto.SerializeToString())
    except TypeError:
        return None
    return pool


def _class(pool: Any, options: Any) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))


def _compiled(pool: Any, options: Any, option: pb.UninterpretedOption, package: str) -> bytes | None:
    """The bytes of an option, or None if the option is unknown or the value does not have its type."""
    first, *path = option.name
    extension = _extension(pool, first.name_part, package) if first.is_extension else None
    if extension is None or extension.containing_type.full_name != options.DESCRIPTOR.full_name:
        return None
    text = _text(option)
    for part in reversed(path):
        text = f"{part.name_part} {{ {text} }}" if option.HasField("aggregate_value") else f"{part.name_part}: {text}"
    name = f"[{extension.full_name}]"
    is_message = bool(path) or option.HasField("aggregate_value")
    parsed = _class(pool, options)()
    try:
        text_format.Parse(f"{name} {{ {text} }}" if is_message else f"{name}: {text}", parsed, descriptor_pool=pool)
    except text_format.ParseError:
        return None
    data: bytes = parsed.SerializeToString()
    return data


def _extension(pool: Any, name: str, package: str) -> Any:
    """An extension by its name, searched from the package outwards."""
    scopes = package.split(".") if package else []
    for length in range(len(scopes), -1, -1):
        try:
            return pool.FindExtensionByName(".".join([*scopes[:length], name.lstrip(".")]))
        except KeyError:
            continue
    return None


def _text(option: pb.UninterpretedOption) -> str:
    if option.HasField("aggregate_value"):
        return option.aggregate_value
    if option.HasField("string_value"):
        return '"' + "".join(f"\\{byte:03o}" for byte in option.string_value) + '"'
    for name in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    return '""'


def _set_value(option: pb.UninterpretedOption, field: Any, value: Any) -> None:
    if field.message_type is not None:
        option.aggregate_value = message_literal(value)
    elif field.enum_type is not None:
        option.identifier_value = field.enum_type.values_by_number[value].name
    elif isinstance(value, bool):
        option.identifier_value = "true" if value else "false"
    elif isinstance(value, int):
        setattr(option, "positive_int_value" if value >= 0 else "negative_int_value", value)
    elif isinstance(value, float):
        option.double_value = value
    else:
        option.string_value = value if isinstance(value, bytes) else value.encode()


def message_literal(message: Any) -> str:
    """The fields of a message literal, in the layout that a text has."""
    parts = []
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = [{"key": key, "value": value[key]} for key in sorted(value)]
            pairs = [
                ", ".join(f"{name}: {_scalar(None, content)}" for name, content in entry.items()) for entry in entries
            ]
            parts.append(f"{field.name}: [" + ", ".join("{" + pair + "}" for pair in pairs) + "]")
        elif field.is_repeated:
            parts.append(f"{field.name}: [" + ", ".join(_scalar(field, element) for element in value) + "]")
        else:
            parts.append(f"{field.name}: {_scalar(field, value)}")
    return ", ".join(parts)


def _scalar(field: Any, value: Any) -> str:
    if hasattr(value, "DESCRIPTOR"):
        return "{" + message_literal(value) + "}"
    if field is not None and field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value)
