"""Resolves the full names of types in a .proto text, and the options that the language defines.

Files of `google/protobuf/` come with the library, those of `confluent/` with the serializers. Files of `google/type/`
are known to all registries without being registered; this package lacks their contents, so their names are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import descriptor_pool

from ottla.serdes.formats.base import InvalidSchema
from ottla.serdes.formats.proto_options import options_as_numbers
from ottla.serdes.provided_protos import provided_file

__all__ = ["all_imports", "check_links", "is_provided", "known_file", "linked"]

Kind = pb.FieldDescriptorProto
_UNCHECKED = ("google/type/",)
_UNCHECKED_PACKAGES = (".google.type.",)


def is_provided(name: str) -> bool:
    """True for imports that need no reference."""
    return name.startswith(_UNCHECKED) or known_file(name) is not None


def known_file(name: str) -> pb.FileDescriptorProto | None:
    """A file that comes with the Protobuf library, or that all registries have."""
    provided: pb.FileDescriptorProto | None = provided_file(name)
    if provided is not None:
        return provided
    if not name.startswith("google/protobuf/") or not name.endswith(".proto"):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return pb.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def linked(file: pb.FileDescriptorProto, others: Mapping[str, pb.FileDescriptorProto]) -> pb.FileDescriptorProto:
    """A copy with resolved names and options. `others` are the linked files that it may import, by name."""
    result = pb.FileDescriptorProto.FromString(file.SerializeToString())
    missing = [name for name in result.dependency if name not in others and not is_provided(name)]
    if missing:
        raise InvalidSchema(f"The import {missing[0]} is not among the references of the schema.")
    types: dict[str, int] = {}
    for proto in (result, *_imported(result, others)):
        _collect(proto, types)
    scope = f".{result.package}" if result.package else ""
    linker = _Linker(types)
    linker.options(result)
    for message in result.message_type:
        linker.message(message, f"{scope}.{message.name}")
    for enum in result.enum_type:
        linker.enum(enum)
    for field in result.extension:
        linker.field(field, scope)
    for service in result.service:
        linker.options(service)
        for method in service.method:
            linker.options(method)
            method.input_type = linker.resolve(method.input_type, scope)[0]
            method.output_type = linker.resolve(method.output_type, scope)[0]
    options_as_numbers(result, all_imports(result, others))
    return result


def all_imports(
    file: pb.FileDescriptorProto, others: Mapping[str, pb.FileDescriptorProto]
) -> list[pb.FileDescriptorProto]:
    """All files that a file needs. Every file comes after its own imports."""
    ordered: dict[str, pb.FileDescriptorProto] = {}

    def collect(proto: pb.FileDescriptorProto) -> None:
        for name in proto.dependency:
            imported = others.get(name) or known_file(name)
            if imported is not None and name not in ordered:
                collect(imported)
                ordered[name] = imported

    collect(file)
    return list(ordered.values())


def check_links(file: pb.FileDescriptorProto, others: Mapping[str, pb.FileDescriptorProto]) -> None:
    """Lets the Protobuf library check numbers, names and types. Raises InvalidSchema."""
    if any(name.startswith(_UNCHECKED) for proto in (file, *all_imports(file, others)) for name in proto.dependency):
        return
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(proto: pb.FileDescriptorProto) -> None:
        if proto.name in added:
            return
        added.add(proto.name)
        for name in proto.dependency:
            imported = others.get(name) or known_file(name)
            if imported is not None:
                add(imported)
        pool.AddSerializedFile(proto.SerializeToString())

    try:
        add(file)
    except TypeError as error:
        raise InvalidSchema(f"{error}".removesuffix(".") + ".") from error


def _imported(
    file: pb.FileDescriptorProto, others: Mapping[str, pb.FileDescriptorProto]
) -> Iterable[pb.FileDescriptorProto]:
    """The files whose types can be used: imports, and the public imports of those."""
    waiting, seen = list(file.dependency), set()
    while waiting:
        name = waiting.pop()
        imported = others.get(name) or known_file(name)
        if imported is None or name in seen:
            continue
        seen.add(name)
        yield imported
        waiting += [imported.dependency[index] for index in imported.public_dependency]


def _collect(file: pb.FileDescriptorProto, types: dict[str, int]) -> None:
    scope = f".{file.package}" if file.package else ""

    def messages(descriptors: Iterable[pb.DescriptorProto], scope: str) -> None:
        for message in descriptors:
            name = f"{scope}.{message.name}"
            types[name] = Kind.TYPE_MESSAGE
            for enum in message.enum_type:
                types[f"{name}.{enum.name}"] = Kind.TYPE_ENUM
            messages(message.nested_type, name)

    for enum in file.enum_type:
        types[f"{scope}.{enum.name}"] = Kind.TYPE_ENUM
    messages(file.message_type, scope)


class _Linker:
    def __init__(self, types: Mapping[str, int]) -> None:
        self._types = types

    def message(self, message: pb.DescriptorProto, scope: str) -> None:
        self.options(message)
        for field in (*message.field, *message.extension):
            self.field(field, scope)
        for nested in message.nested_type:
            self.message(nested, f"{scope}.{nested.name}")
        for enum in message.enum_type:
            self.enum(enum)
        for oneof in message.oneof_decl:
            self.options(oneof)

    def field(self, field: pb.FieldDescriptorProto, scope: str) -> None:
        if field.type_name:
            field.type_name, kind = self.resolve(field.type_name, scope)
            if field.type != Kind.TYPE_GROUP:
                field.type = kind
        if field.extendee:
            field.extendee = self.resolve(field.extendee, scope)[0]
        kept = []
        for option in field.options.uninterpreted_option:
            name = _plain_name(option)
            if name == "default":
                field.default_value = _text(option)
            elif name == "json_name":
                field.json_name = _text(option)
            else:
                kept.append(option)
        _replace(field.options.uninterpreted_option, kept)
        self.options(field)

    def enum(self, enum: pb.EnumDescriptorProto) -> None:
        self.options(enum)
        for value in enum.value:
            self.options(value)

    def options(self, owner: Any) -> None:
        """Sets the options that the language defines. Other options stay uninterpreted: their types are unknown."""
        if not owner.HasField("options"):
            return
        kept = []
        for option in owner.options.uninterpreted_option:
            name = _plain_name(option)
            if name is None or not _set_option(owner.options, name, _text(option)):
                kept.append(option)
        _replace(owner.options.uninterpreted_option, kept)
        if not owner.options.ListFields():
            owner.ClearField("options")

    def resolve(self, name: str, scope: str) -> tuple[str, int]:
        """The full name and kind of a type, searched from the innermost scope outwards."""
        if name.startswith("."):
            candidates = [name]
        else:
            parts = scope.split(".")
            candidates = [".".join(parts[:length]) + f".{name}" for length in range(len(parts), 0, -1)]
        for candidate in candidates:
            if candidate in self._types:
                return candidate, self._types[candidate]
        absolute = name if name.startswith(".") else f".{name}"
        if absolute.startswith(_UNCHECKED_PACKAGES):
            return absolute, Kind.TYPE_MESSAGE
        raise InvalidSchema(f"The type {name}, used in {scope.lstrip('.') or 'the file'}, is not defined.")


def _plain_name(option: pb.UninterpretedOption) -> str | None:
    return option.name[0].name_part if len(option.name) == 1 and not option.name[0].is_extension else None


def _text(option: pb.UninterpretedOption) -> str:
    for name in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    return option.string_value.decode("utf-8", "replace")


def _set_option(options: Any, name: str, text: str) -> bool:
    field = options.DESCRIPTOR.fields_by_name.get(name)
    if field is None or field.is_repeated or field.message_type is not None:
        return False
    try:
        if field.enum_type is not None:
            setattr(options, name, field.enum_type.values_by_name[text].number)
        elif field.type == field.TYPE_BOOL:
            setattr(options, name, {"true": True, "false": False}[text])
        elif field.type == field.TYPE_STRING:
            setattr(options, name, text)
        else:
            setattr(options, name, int(text))
    except (KeyError, ValueError, TypeError):
        raise InvalidSchema(f"The option {name} cannot be {text!r}.") from None
    return True


def _replace(repeated: Any, kept: list[pb.UninterpretedOption]) -> None:
    copies = [pb.UninterpretedOption.FromString(option.SerializeToString()) for option in kept]
    del repeated[:]
    repeated.extend(copies)
