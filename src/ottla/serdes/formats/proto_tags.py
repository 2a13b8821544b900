"""Tags within Protobuf schemas: `(confluent.message_meta).tags` and `(confluent.field_meta).tags`.

A path names a message (`Person`, `Person.Address`) or a field (`Person.name`), without the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.text_encoding import CEscape

from ottla.serdes.formats.base import FIELD, RECORD, Entity, InvalidSchema, Tags
from ottla.serdes.formats.proto_linking import known_file
from ottla.serdes.formats.proto_options import message_literal
from ottla.serdes.formats.tags import changed_tags, no_such_entity

__all__ = ["proto_tagged", "tag_proto"]

_FILE = "confluent/meta.proto"
_OPTIONS = {RECORD: "confluent.message_meta", FIELD: "confluent.field_meta"}


def proto_tagged(file: pb.FileDescriptorProto) -> dict[Entity, tuple[str, ...]]:
    """The messages and fields that have tags. The file's options are text."""
    own_tags = {entity: tuple(_meta(options, entity.kind).tags) for entity, options in _entities(file.message_type, "")}
    return {entity: tags for entity, tags in own_tags.items() if tags}


def tag_proto(file: pb.FileDescriptorProto, *, add: Tags, remove: Tags) -> None:
    """Changes the file. Raises InvalidSchema for a path that does not exist."""
    known = dict(_entities(file.message_type, ""))
    for entity in dict.fromkeys((*add, *remove)):
        options = known.get(Entity(entity.path.removeprefix("."), entity.kind))
        if options is None:
            raise no_such_entity(entity)
        meta = _meta(options, entity.kind)
        tags = changed_tags(tuple(meta.tags), add.get(entity, ()), remove.get(entity, ()))
        meta.ClearField("tags")
        meta.tags.extend(tags)
        kept = [option for option in options.uninterpreted_option if not _is_meta(option, entity.kind)]
        del options.uninterpreted_option[:]
        options.uninterpreted_option.extend(kept)
        if meta.ListFields():
            option = options.uninterpreted_option.add()
            option.name.add(name_part=_OPTIONS[entity.kind], is_extension=True)
            option.aggregate_value = message_literal(meta)
    if any(add.values()) and _FILE not in file.dependency:
        file.dependency.append(_FILE)


def _entities(messages: Any, scope: str) -> Iterator[tuple[Entity, Any]]:
    for message in messages:
        if message.options.map_entry:
            continue
        path = f"{scope}{message.name}"
        yield Entity(path, RECORD), message.options
        for field in message.field:
            yield Entity(f"{path}.{field.name}", FIELD), field.options
        yield from _entities(message.nested_type, f"{path}.")


def _is_meta(option: pb.UninterpretedOption, kind: str) -> bool:
    return option.name[0].is_extension and option.name[0].name_part.removeprefix(".") == _OPTIONS[kind]


def _meta(options: Any, kind: str) -> Any:
    """The tags, documentation and parameters that the options hold."""
    meta: Any = _meta_class()()
    for option in options.uninterpreted_option:
        if not _is_meta(option, kind):
            continue
        try:
            text_format.Merge(_as_text(option), meta)
        except text_format.ParseError as error:
            raise InvalidSchema(f"The option {_OPTIONS[kind]} cannot be read: {error}.") from error
    return meta


def _as_text(option: pb.UninterpretedOption) -> str:
    """An option as the fields of its message: `(meta) = {tags: ["a"]}`, or `(meta).tags = "a"`."""
    if len(option.name) == 1:
        return option.aggregate_value
    value = option.aggregate_value or f'"{CEscape(option.string_value, True)}"'
    return f"{option.name[1].name_part}: {value}"


@cache
def _meta_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(pb.DESCRIPTOR.serialized_pb)
    file = known_file(_FILE)
    assert file is not None
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("confluent.Meta"))
