"""The text of a .proto file as a FileDescriptorProto.

The result keeps the text as written: names of types are not resolved, and all options stay uninterpreted, in their
order. `proto_linking.linked` resolves both. Printing needs the first form, compilers and comparisons need the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from antlr4.error.ErrorListener import ErrorListener
from google.protobuf import descriptor_pb2 as pb
from proto_schema_parser import ast
from proto_schema_parser.parser import Parser

from ottla.serdes.formats.base import InvalidSchema

__all__ = ["SCALARS", "parse_proto"]

Kind = pb.FieldDescriptorProto

SCALARS = {
    name: getattr(Kind, f"TYPE_{name.upper()}")
    for name in [
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "bytes",
        "uint32",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
    ]
}
_LABELS = {"REQUIRED": Kind.LABEL_REQUIRED, "REPEATED": Kind.LABEL_REPEATED, "OPTIONAL": Kind.LABEL_OPTIONAL}
_NUMBER_MAX = 536_870_911
_ENUM_MAX = 2**31 - 1


def parse_proto(text: str, name: str) -> pb.FileDescriptorProto:
    """Raises InvalidSchema with the line of a syntax error."""
    listener = _Listener()

    def listen(recognizer: Any) -> None:
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(listener)

    try:
        file = Parser(setup_lexer=listen, setup_parser=listen).parse(text)
    except InvalidSchema:
        raise
    except Exception as error:
        raise InvalidSchema(f"The .proto text cannot be read: {error}.") from error
    try:
        return _file(file, name)
    except ValueError as error:
        # A number that a descriptor cannot hold.
        raise InvalidSchema(f"The .proto text cannot be read: {error}.") from error


class _Listener(ErrorListener):
    """Raises InvalidSchema for a syntax error. The default listener of the library prints errors and continues."""

    def syntaxError(self, _recognizer: Any, _symbol: Any, line: int, column: int, message: str, _error: Any) -> None:  # noqa: N802
        raise InvalidSchema(f"Line {line}, column {column + 1}: {message.partition(' expecting ')[0]}.")


def _file(file: ast.File, name: str) -> pb.FileDescriptorProto:
    result = pb.FileDescriptorProto(name=name)
    if file.edition is not None:
        result.syntax = "editions"
        try:
            result.edition = pb.Edition.Value(f"EDITION_{file.edition}")
        except ValueError:
            raise InvalidSchema(f"The edition {file.edition} is unknown.") from None
    elif file.syntax is not None:
        if file.syntax not in ("proto2", "proto3"):
            raise InvalidSchema(f"The syntax {file.syntax} is not proto2 or proto3.")
        result.syntax = file.syntax
    for element in file.file_elements:
        match element:
            case ast.Package():
                result.package = element.name
            case ast.Import():
                if element.public:
                    result.public_dependency.append(len(result.dependency))
                if element.weak:
                    result.weak_dependency.append(len(result.dependency))
                result.dependency.append(element.name)
            case ast.Option():
                _add_option(result.options, element)
            case ast.Message():
                _fill_message(result.message_type.add(), element.name, element.elements, result.syntax)
            case ast.Enum():
                _fill_enum(result.enum_type.add(), element)
            case ast.Extension():
                _fill_extension(result.extension, result.message_type, element, result.syntax)
            case ast.Service():
                _fill_service(result.service.add(), element)
    return result


def _fill_message(message: pb.DescriptorProto, name: str, elements: Iterable[Any], syntax: str) -> None:
    message.name = name
    optional: list[pb.FieldDescriptorProto] = []
    for element in elements:
        match element:
            case ast.Field():
                field = _fill_field(message.field.add(), element)
                if syntax == "proto3" and element.cardinality == ast.FieldCardinality.OPTIONAL:
                    field.proto3_optional = True
                    optional.append(field)
            case ast.MapField():
                _fill_map(message, element)
            case ast.Group():
                _fill_group(message.field.add(), message.nested_type, element, syntax)
            case ast.OneOf():
                _fill_oneof(message, element, syntax)
            case ast.Message():
                _fill_message(message.nested_type.add(), element.name, element.elements, syntax)
            case ast.Enum():
                _fill_enum(message.enum_type.add(), element)
            case ast.Extension():
                _fill_extension(message.extension, message.nested_type, element, syntax)
            case ast.Option():
                _add_option(message.options, element)
            case ast.ExtensionRange():
                for start, end in _ranges(element.ranges, _NUMBER_MAX):
                    extension = message.extension_range.add(start=start, end=end + 1)
                    for option in element.options:
                        _add_option(extension.options, option)
            case ast.Reserved():
                message.reserved_name.extend(element.names)
                for start, end in _ranges(element.ranges, _NUMBER_MAX):
                    message.reserved_range.add(start=start, end=end + 1)
    for field in optional:
        # A field with presence is the only member of a hidden (synthetic) oneof. These oneofs follow the declared ones.
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _fill_field(field: pb.FieldDescriptorProto, element: ast.Field) -> pb.FieldDescriptorProto:
    field.name, field.number = element.name, element.number
    field.label = _LABELS[element.cardinality.value] if element.cardinality else Kind.LABEL_OPTIONAL
    if element.type in SCALARS:
        field.type = SCALARS[element.type]
    else:
        field.type_name = element.type
    for option in element.options:
        _add_option(field.options, option)
    return field


def _fill_map(message: pb.DescriptorProto, element: ast.MapField) -> None:
    words = re.split(r"_", element.name)
    entry = message.nested_type.add(name="".join(word[:1].upper() + word[1:] for word in words) + "Entry")
    entry.options.map_entry = True
    for number, (name, kind) in enumerate((("key", element.key_type), ("value", element.value_type)), start=1):
        _fill_field(entry.field.add(), ast.Field(name=name, number=number, type=kind))
    field = message.field.add(name=element.name, number=element.number, label=Kind.LABEL_REPEATED)
    field.type_name = entry.name
    for option in element.options:
        _add_option(field.options, option)


def _fill_group(field: pb.FieldDescriptorProto, nested: Any, element: ast.Group, syntax: str) -> None:
    _fill_message(nested.add(), element.name, element.elements, syntax)
    field.name, field.number = element.name.lower(), element.number
    field.label = _LABELS[element.cardinality.value] if element.cardinality else Kind.LABEL_OPTIONAL
    field.type, field.type_name = Kind.TYPE_GROUP, element.name


def _fill_oneof(message: pb.DescriptorProto, element: ast.OneOf, syntax: str) -> None:
    index = len(message.oneof_decl)
    oneof = message.oneof_decl.add(name=element.name)
    for member in element.elements:
        match member:
            case ast.Field():
                _fill_field(message.field.add(oneof_index=index), member)
            case ast.Group():
                _fill_group(message.field.add(oneof_index=index), message.nested_type, member, syntax)
            case ast.Option():
                _add_option(oneof.options, member)


def _fill_enum(enum: pb.EnumDescriptorProto, element: ast.Enum) -> None:
    enum.name = element.name
    for member in element.elements:
        match member:
            case ast.EnumValue():
                value = enum.value.add(name=member.name, number=member.number)
                for option in member.options:
                    _add_option(value.options, option)
            case ast.Option():
                _add_option(enum.options, member)
            case ast.EnumReserved():
                enum.reserved_name.extend(member.names)
                for start, end in _ranges(member.ranges, _ENUM_MAX):
                    enum.reserved_range.add(start=start, end=end)


def _fill_extension(extensions: Any, messages: Any, element: ast.Extension, syntax: str) -> None:
    for member in element.elements:
        if isinstance(member, ast.Field):
            _fill_field(extensions.add(extendee=element.typeName), member)
        elif isinstance(member, ast.Group):
            _fill_group(extensions.add(extendee=element.typeName), messages, member, syntax)


def _fill_service(service: pb.ServiceDescriptorProto, element: ast.Service) -> None:
    service.name = element.name
    for member in element.elements:
        if isinstance(member, ast.Option):
            _add_option(service.options, member)
        elif isinstance(member, ast.Method):
            method = service.method.add(
                name=member.name, input_type=member.input_type.type, output_type=member.output_type.type
            )
            method.client_streaming, method.server_streaming = member.input_type.stream, member.output_type.stream
            for option in member.elements:
                if isinstance(option, ast.Option):
                    _add_option(method.options, option)


def _add_option(options: Any, element: ast.Option) -> None:
    option = options.uninterpreted_option.add()
    for extension, plain in re.findall(r"\(([^)]*)\)|([^.()]+)", element.name):
        option.name.add(name_part=extension or plain, is_extension=bool(extension))
    _set_option_value(option, element.value)


def _set_option_value(option: pb.UninterpretedOption, value: Any) -> None:
    match value:
        case bool():
            option.identifier_value = "true" if value else "false"
        case int() if value >= 0:
            option.positive_int_value = value
        case int():
            option.negative_int_value = value
        case float():
            option.double_value = value
        case str():
            option.string_value = _unescaped(value)
        case ast.Identifier():
            option.identifier_value = value.name
        case _:
            option.aggregate_value = _literal(value)


def _literal(value: Any) -> str:
    """A message literal on one line."""
    match value:
        case ast.MessageLiteral():
            fields = [element for element in value.elements if isinstance(element, ast.MessageLiteralField)]
            return ", ".join(f"{field.name}: {_nested_literal(field.value)}" for field in fields)
        case _:
            return _nested_literal(value)


def _nested_literal(value: Any) -> str:
    match value:
        case ast.MessageLiteral():
            return "{" + _literal(value) + "}"
        case list():
            return "[" + ", ".join(_nested_literal(element) for element in value) + "]"
        case bool():
            return "true" if value else "false"
        case str():
            text = _unescaped(value).decode("utf-8", "replace")
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case ast.Identifier():
            return value.name
        case _:
            return str(value)


def _unescaped(text: str) -> bytes:
    """The bytes of a string literal: the parser leaves escapes as they are written."""

    def replaced(match: re.Match[str]) -> str:
        octal, hexadecimal, letter = match.groups()
        if octal or hexadecimal:
            return chr(int(octal, 8) if octal else int(hexadecimal, 16))
        return {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}.get(letter, letter)

    return re.sub(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", replaced, text).encode()


def _ranges(texts: Iterable[str], highest: int) -> Iterable[tuple[int, int]]:
    for text in texts:
        start, _, end = text.partition(" to ")
        yield int(start, 0), highest if end == "max" else int(end or start, 0)
