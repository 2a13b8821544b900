"""Protobuf schemas: the text of a .proto file, or a FileDescriptorProto in base64, as some clients send it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.message import DecodeError

from ottla.serdes.formats.base import PROTOBUF, Entity, InvalidSchema, ParsedSchema, SchemaSource, Tags
from ottla.serdes.formats.proto_differences import proto_differences
from ottla.serdes.formats.proto_linking import all_imports, check_links, linked
from ottla.serdes.formats.proto_options import options_as_text
from ottla.serdes.formats.proto_printing import proto_text
from ottla.serdes.formats.proto_tags import proto_tagged, tag_proto
from ottla.serdes.formats.proto_text import parse_proto

__all__ = ["ProtobufSchema", "parse_protobuf"]

_OWN_NAME = "default.proto"


class ProtobufSchema(ParsedSchema):
    schema_type = PROTOBUF

    def __init__(
        self,
        written: pb.FileDescriptorProto,
        compiled: pb.FileDescriptorProto,
        others: Mapping[str, pb.FileDescriptorProto],
    ) -> None:
        self._written = written
        self.compiled = compiled
        self._others = others

    @property
    def canonical(self) -> str:
        return proto_text(self._written)

    @property
    def normalized(self) -> str:
        named = pb.FileDescriptorProto.FromString(self.compiled.SerializeToString())
        options_as_text(named, all_imports(named, self._others))
        return proto_text(named, is_sorted=True)

    def formatted(self, form: str) -> str:
        if form == "serialized":
            return base64.b64encode(self.compiled.SerializeToString()).decode()
        if form == "ignore_extensions":
            return proto_text(self._written, with_extensions=False)
        return super().formatted(form)

    def problems_reading(self, writer: ProtobufSchema) -> list[str]:
        return proto_differences(old=writer.compiled, new=self.compiled)

    def check_new(self) -> None:
        check_links(self.compiled, self._others)

    def tagged(self) -> dict[Entity, tuple[str, ...]]:
        return proto_tagged(self._written)

    def with_tags(self, add: Tags, remove: Tags) -> str:
        file = pb.FileDescriptorProto.FromString(self._written.SerializeToString())
        tag_proto(file, add=add, remove=remove)
        return proto_text(file)

    def names(self) -> Sequence[str]:
        scope = f"{self.compiled.package}." if self.compiled.package else ""
        return [scope + message.name for message in self.compiled.message_type]


def parse_protobuf(source: SchemaSource) -> ProtobufSchema:
    """Raises InvalidSchema."""
    others: dict[str, pb.FileDescriptorProto] = {}
    for name, text in source.references:
        try:
            others[name] = linked(_file(text, name, others), others)
        except InvalidSchema as error:
            raise InvalidSchema(f"The reference {name}: {error}") from error
    written = _file(source.text, _OWN_NAME, others)
    return ProtobufSchema(written, linked(written, others), others)


def _file(text: str, name: str, others: Mapping[str, pb.FileDescriptorProto]) -> pb.FileDescriptorProto:
    descriptor = _from_base64(text)
    if descriptor is None:
        return parse_proto(text, name)
    descriptor.name = name
    descriptor.ClearField("source_code_info")
    options_as_text(descriptor, all_imports(descriptor, others))
    return descriptor


def _from_base64(text: str) -> pb.FileDescriptorProto | None:
    """A serialized descriptor, or None for text: no .proto file consists of base64 characters alone."""
    try:
        data = base64.b64decode(text.strip(), validate=True)
        return pb.FileDescriptorProto.FromString(data) if data else None
    except (binascii.Error, ValueError, DecodeError):
        return None
