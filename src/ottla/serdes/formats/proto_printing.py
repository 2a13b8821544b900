"""A FileDescriptorProto as text, laid out as Confluent's registry does.

Sections have a fixed order, separated by empty lines. `is_sorted` gives the normalized text: imports, options,
fields and enum values in an order that does not depend on the author.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from ottla.serdes.formats.proto_text import SCALARS

__all__ = ["proto_text"]

Kind = pb.FieldDescriptorProto
_SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
_LABELS = {Kind.LABEL_REQUIRED: "required ", Kind.LABEL_REPEATED: "repeated ", Kind.LABEL_OPTIONAL: "optional "}
_NUMBER_MAX = 536_870_911


def proto_text(file: pb.FileDescriptorProto, *, is_sorted: bool = False, with_extensions: bool = True) -> str:
    return _Printer(file, is_sorted, with_extensions).file()


class _Printer:
    def __init__(self, file: pb.FileDescriptorProto, is_sorted: bool, with_extensions: bool) -> None:
        self._file = file
        self._is_sorted = is_sorted
        self._with_extensions = with_extensions
        self._is_proto2 = file.syntax in ("", "proto2")

    def file(self) -> str:
        file = self._file
        head = []
        if file.syntax == "editions":
            head.append(f'edition = "{pb.Edition.Name(file.edition).removeprefix("EDITION_")}";')
        elif file.syntax:
            head.append(f'syntax = "{file.syntax}";')
        if file.package:
            head.append(f"package {file.package};")
        public = {file.dependency[index] for index in file.public_dependency}
        imports = self._ordered(file.dependency)
        sections = [
            [f'import "{name}";' for name in imports if name not in public]
            + [f'import public "{name}";' for name in imports if name in public],
            [f"option {option};" for option in self._options(file.options)],
            [
                *(line for message in file.message_type for line in self._message(message)),
                *(line for enum in file.enum_type for line in self._enum(enum)),
            ],
            self._extensions(file.extension) if self._with_extensions else [],
            [line for service in file.service for line in self._service(service)],
        ]
        lines = list(head)
        for section in sections:
            if section:
                lines += ["", *section]
        return "\n".join(lines) + "\n"

    def _message(self, message: pb.DescriptorProto) -> list[str]:
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == Kind.TYPE_GROUP}
        nested = [inner for inner in message.nested_type if inner.name not in entries and inner.name not in groups]
        hidden = {field.oneof_index for field in message.field if field.proto3_optional}
        members: dict[int, list[pb.FieldDescriptorProto]] = {}
        plain = []
        for field in self._by_number(message.field):
            if field.HasField("oneof_index") and field.oneof_index not in hidden:
                members.setdefault(field.oneof_index, []).append(field)
            else:
                plain.append(field)
        fields = [line for field in plain for line in self._field(field, entries, message)]
        oneofs = list(enumerate(message.oneof_decl))
        if self._is_sorted:
            oneofs.sort(key=lambda pair: min((field.number for field in members.get(pair[0], ())), default=0))
        sections = [
            self._reserved(message),
            [f"option {option};" for option in self._options(message.options) if not option.startswith("map_entry")],
            fields,
            [
                line
                for index, oneof in oneofs
                if index in members
                for line in self._oneof(oneof, members[index], message)
            ],
            self._extension_ranges(message) if self._with_extensions else [],
            self._extensions(message.extension) if self._with_extensions else [],
            [
                *(line for inner in nested for line in self._message(inner)),
                *(line for enum in message.enum_type for line in self._enum(enum)),
            ],
        ]
        return _block(f"message {message.name}", sections)

    def _field(
        self,
        field: pb.FieldDescriptorProto,
        entries: dict[str, pb.DescriptorProto],
        owner: pb.DescriptorProto,
        *,
        is_member: bool = False,
    ) -> list[str]:
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == Kind.LABEL_REPEATED else None
        label = "" if is_member else _LABELS[field.label]
        if label == "optional " and not (self._is_proto2 or field.proto3_optional):
            label = ""
        options = self._field_options(field)
        if entry is not None:
            key, value = entry.field
            start = f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}"
        elif field.type == Kind.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            group = next((nested for nested in owner.nested_type if nested.name == name), pb.DescriptorProto(name=name))
            body = self._message(group)
            return [f"{label}group {name} = {field.number} " + "{", *body[1:]]
        else:
            start = f"{label}{_type(field)} {field.name} = {field.number}"
        return _with_options(start, options)

    def _oneof(
        self, oneof: pb.OneofDescriptorProto, members: list[pb.FieldDescriptorProto], owner: pb.DescriptorProto
    ) -> list[str]:
        lines = [line for field in members for line in self._field(field, {}, owner, is_member=True)]
        options = [f"option {option};" for option in self._options(oneof.options)]
        return [f"oneof {oneof.name} " + "{", *_indented(options), *_indented(lines), "}"]

    def _enum(self, enum: pb.EnumDescriptorProto) -> list[str]:
        values = sorted(enum.value, key=lambda value: (value.number, value.name)) if self._is_sorted else enum.value
        lines = [f"option {option};" for option in self._options(enum.options)]
        reserved = [_range(span.start, span.end, 2**31 - 1) for span in enum.reserved_range]
        lines += [f"reserved {', '.join(reserved)};"] if reserved else []
        lines += [f"reserved {', '.join(_quoted(name) for name in enum.reserved_name)};"] if enum.reserved_name else []
        for value in values:
            lines += _with_options(f"{value.name} = {value.number}", self._options(value.options))
        return [f"enum {enum.name} " + "{", *_indented(lines), "}"]

    def _service(self, service: pb.ServiceDescriptorProto) -> list[str]:
        methods: list[str] = []
        for method in service.method:
            request = ("stream " if method.client_streaming else "") + method.input_type
            answer = ("stream " if method.server_streaming else "") + method.output_type
            line = f"rpc {method.name} ({request}) returns ({answer})"
            options = [f"option {option};" for option in self._options(method.options)]
            methods += [line + " {", *_indented(options), "};"] if options else [line + ";"]
        return _block(
            f"service {service.name}", [[f"option {option};" for option in self._options(service.options)], methods]
        )

    def _reserved(self, message: pb.DescriptorProto) -> list[str]:
        ranges = [_range(span.start, span.end - 1, _NUMBER_MAX) for span in message.reserved_range]
        names = [_quoted(name) for name in message.reserved_name]
        if self._is_sorted:
            ordered = sorted(message.reserved_range, key=lambda span: span.start)
            ranges = [_range(span.start, span.end - 1, _NUMBER_MAX) for span in ordered]
            return [f"reserved {part};" for part in (*ranges, *sorted(names))]
        return [f"reserved {', '.join(group)};" for group in (ranges, names) if group]

    def _extension_ranges(self, message: pb.DescriptorProto) -> list[str]:
        return [f"extensions {_range(span.start, span.end - 1, _NUMBER_MAX)};" for span in message.extension_range]

    def _extensions(self, extensions: Iterable[pb.FieldDescriptorProto]) -> list[str]:
        by_extendee: dict[str, list[pb.FieldDescriptorProto]] = {}
        for field in extensions:
            by_extendee.setdefault(field.extendee, []).append(field)
        empty = pb.DescriptorProto()
        return [
            line
            for extendee, fields in by_extendee.items()
            for line in (
                f"extend {extendee} " + "{",
                *_indented(field_line for field in fields for field_line in self._field(field, {}, empty)),
                "}",
            )
        ]

    def _field_options(self, field: pb.FieldDescriptorProto) -> list[str]:
        options = []
        if field.HasField("default_value"):
            is_text = field.type in (Kind.TYPE_STRING, Kind.TYPE_BYTES)
            options.append(f"default = {_quoted(field.default_value) if is_text else field.default_value}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options.append(f"json_name = {_quoted(field.json_name)}")
        all_options = options + self._options(field.options)
        return sorted(all_options) if self._is_sorted else all_options

    def _options(self, options: Any) -> list[str]:
        """`name = value` for each option, in the order of the author or of the language."""
        texts = []
        for field, value in options.ListFields():
            if field.name == "uninterpreted_option":
                texts += [f"{_option_name(option)} = {_option_value(option)}" for option in value]
            elif field.is_extension or field.message_type is not None or field.is_repeated:
                continue
            elif field.enum_type is not None:
                texts.append(f"{field.name} = {field.enum_type.values_by_number[value].name}")
            elif field.type == field.TYPE_BOOL:
                texts.append(f"{field.name} = {'true' if value else 'false'}")
            else:
                texts.append(f"{field.name} = {_quoted(value) if isinstance(value, str) else value}")
        if not self._with_extensions:
            texts = [option for option in texts if not option.startswith("(")]
        return sorted(texts) if self._is_sorted else texts

    def _ordered(self, names: Iterable[str]) -> list[str]:
        return sorted(set(names)) if self._is_sorted else list(names)

    def _by_number(self, fields: Iterable[pb.FieldDescriptorProto]) -> list[pb.FieldDescriptorProto]:
        return sorted(fields, key=lambda field: field.number) if self._is_sorted else list(fields)


def _block(head: str, sections: list[list[str]]) -> list[str]:
    lines = [head + " {"]
    filled = [section for section in sections if section]
    for index, section in enumerate(filled):
        lines += ([""] if index else []) + _indented(section)
    return [head + " {}"] if not filled else [*lines, "}"]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]


def _with_options(start: str, options: list[str]) -> list[str]:
    if not options:
        return [start + ";"]
    if len(options) == 1:
        return [f"{start} [{options[0]}];"]
    inner = [f"  {option}," for option in options[:-1]] + [f"  {options[-1]}"]
    return [start + " [", *inner, "];"]


def _type(field: pb.FieldDescriptorProto) -> str:
    return field.type_name or _SCALAR_NAMES[field.type]


def _range(start: int, end: int, highest: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= highest else end}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _option_name(option: pb.UninterpretedOption) -> str:
    return ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)


def _option_value(option: pb.UninterpretedOption) -> str:
    if option.HasField("string_value"):
        return _quoted(option.string_value.decode("utf-8", "replace"))
    if option.HasField("aggregate_value"):
        return "{" + option.aggregate_value + "}"
    for name in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    return '""'


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
