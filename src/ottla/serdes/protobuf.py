"""Protobuf with a registry: generated classes, or messages of classes that are built from the registry's schema."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.serdes.protobuf_fields import protobuf_walk
from ottla.serdes.provided_protos import provided_file
from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.rules.contracts import FieldWalk, RuleCall, RuleMode
from ottla.serdes.schema_serde import SchemaDeserializer, SchemaSerializer, referenced_texts
from ottla.serdes.subjects import context_prefix
from ottla.serdes.wire_format import SchemaTag

__all__ = ["ProtobufDeserializer", "ProtobufSerializer"]

# Registries have these files without a registration.
_PROVIDED = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerializer(SchemaSerializer[Any]):
    """Values are messages. Files that the message's file imports are registered as references, under their names."""

    schema_type = "PROTOBUF"
    schema_form = "serialized"

    def __init__(self, *, client: RegistryClient | None = None, config: Mapping[str, Any] | None = None) -> None:
        # By message and topic: the subject, and so the context of its references, depends on both.
        self._schemas: dict[tuple[Any, str], SchemaText] = {}
        self._ruled: dict[tuple[SchemaText, str], Any] = {}
        super().__init__(client, config)

    def _schema_of(self, value: Any, topic: str) -> SchemaText:
        cache_key = (value.DESCRIPTOR, topic)
        schema = self._schemas.get(cache_key)
        if schema is None:
            file, name = value.DESCRIPTOR.file, str(value.DESCRIPTOR.full_name)
            context = context_prefix(self._settings.strategy(topic, self.is_key, name))
            schema = SchemaText(_compiled(file), "PROTOBUF", self._references(file, context))
            self._schemas[cache_key] = schema
        return schema

    def _record_name(self, value: Any, schema: SchemaText) -> str | None:
        return str(value.DESCRIPTOR.full_name)

    def _walk(self, schema: SchemaText, value: Any) -> FieldWalk:
        """The walk along the registry's message with the name of the value's message, else along its first message."""
        cache_key = (schema, value.DESCRIPTOR.full_name)
        if cache_key not in self._ruled:
            self._ruled[cache_key] = same_message(self.client, schema, value.DESCRIPTOR)
        return protobuf_walk(self._ruled[cache_key])

    def _encode(self, value: Any, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        from google.protobuf.message import EncodeError

        try:
            return value.SerializeToString(), message_path(value.DESCRIPTOR)
        except EncodeError as error:
            missing = value.FindInitializationErrors()
            raise self._error(topic, f"{error}.", field=missing[0] if missing else None) from error

    def _references(self, file: Any, context: str) -> tuple[tuple[str, str, int], ...]:
        """The imported files, which are registered under their names in the context of the message's subject."""
        references = []
        for dependency in file.dependencies:
            if dependency.name.startswith(_PROVIDED):
                continue
            subject = context + dependency.name
            schema = SchemaText(_compiled(dependency), "PROTOBUF", self._references(dependency, context))
            version = 0
            if self._settings.auto_register:
                version = self.client.register(subject, schema, normalize=self._settings.normalize).version
            version = version or self.client.lookup(subject, schema).version
            references.append((dependency.name, subject, version))
        return tuple(references)


class ProtobufDeserializer(SchemaDeserializer[Any]):
    """Returns messages of the given class, or without a class, messages built from the writer's schema."""

    has_indexes = True
    schema_form = "serialized"

    def __init__(
        self,
        message_class: type | None = None,
        *,
        client: RegistryClient | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._message_class = message_class
        self._classes: dict[tuple[SchemaText, tuple[int, ...]], type] = {}
        # Messages of the registry's schemas by schema and name. Building one parses the schema.
        self._same: dict[tuple[SchemaText, str], Any] = {}
        super().__init__(client, config)

    def _decode(
        self, payload: memoryview, tag: SchemaTag, writer: SchemaText, reader: SchemaText | None, topic: str
    ) -> Any:
        from google.protobuf.message import DecodeError

        target_class = self._message_class or self._class(writer, tag.indexes)
        try:
            return target_class.FromString(bytes(payload))  # type: ignore[attr-defined]
        except DecodeError as error:
            raise self._error(topic, f"the bytes are not a message of schema {tag.id or tag.guid}: {error}.") from error

    def _migrated(
        self,
        value: Any,
        call: RuleCall,
        steps: Sequence[tuple[RuleMode, SchemaText]],
        reader: SchemaText,
        tag: SchemaTag,
    ) -> Any:
        """Migrations are rules about JSON, so the message becomes JSON and a message again."""
        from google.protobuf import json_format

        fields = json_format.MessageToDict(value, preserving_proto_field_name=True)
        fields = super()._migrated(fields, call, steps, reader, tag)
        target_class = self._message_class
        if target_class is None:
            from google.protobuf import message_factory

            target_class = message_factory.GetMessageClass(self._same_message(reader, value.DESCRIPTOR))
        try:
            return json_format.ParseDict(fields, target_class())
        except json_format.ParseError as error:
            raise ValueError(f"after its migration it is not a message: {error}") from error

    def _writer(self, tag: SchemaTag, topic: str) -> SchemaText:
        # With a given class the writer's schema is not needed. Without a registry, rules are not applied.
        return SchemaText("", "PROTOBUF") if self._client is None else super()._writer(tag, topic)

    def _writer_name(self, writer: SchemaText, tag: SchemaTag) -> str | None:
        target_class: Any = self._message_class or self._class(writer, tag.indexes)
        return str(target_class.DESCRIPTOR.full_name)

    def _walk(self, schema: SchemaText, value: Any, tag: SchemaTag) -> FieldWalk:
        return protobuf_walk(self._same_message(schema, value.DESCRIPTOR))

    def _same_message(self, schema: SchemaText, descriptor: Any) -> Any:
        cache_key = (schema, descriptor.full_name)
        if cache_key not in self._same:
            self._same[cache_key] = same_message(self.client, schema, descriptor)
        return self._same[cache_key]

    def _class(self, schema: SchemaText, indexes: tuple[int, ...]) -> type:
        target_class = self._classes.get((schema, indexes))
        if target_class is None:
            target_class = self._classes[schema, indexes] = message_class(self.client, schema, indexes)
        return target_class


def message_class(client: RegistryClient, schema: SchemaText, indexes: Sequence[int]) -> type:
    """The class of a message of a serialized schema. Raises ValueError."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    files: dict[str, Any] = {}
    for name, text in (*referenced_texts(client, schema, form="serialized").items(), ("", schema)):
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text.text))
        file.name = name or file.name
        files[file.name] = file

    def add(name: str) -> None:
        file = files.pop(name, None)
        if file is None:
            file = provided_file(name) or _known_file(name)
        for dependency in file.dependency:
            if dependency not in added:
                add(dependency)
        pool.AddSerializedFile(file.SerializeToString())
        added.add(name)

    added: set[str] = set()
    own = list(files)[-1]
    try:
        add(own)
        descriptors = pool.FindFileByName(own).message_types_by_name.values()
        descriptor: Any = list(descriptors)[indexes[0]]
        for index in indexes[1:]:
            descriptor = descriptor.nested_types[index]
    except (TypeError, IndexError, KeyError) as error:
        raise ValueError(f"the message {list(indexes)} of its schema cannot be built: {error}") from error
    target_class: type = message_factory.GetMessageClass(descriptor)
    return target_class


def same_message(client: RegistryClient, schema: SchemaText, descriptor: Any) -> Any:
    """The message of the schema with the name of the given message, else the first message of the schema."""
    first: Any = message_class(client, schema, [0])
    try:
        return first.DESCRIPTOR.file.pool.FindMessageTypeByName(descriptor.full_name)
    except KeyError:
        return first.DESCRIPTOR


def message_path(descriptor: Any) -> list[int]:
    """The path of indexes from the file to the message."""
    path: list[int] = []
    while descriptor.containing_type is not None:
        siblings = list(descriptor.containing_type.nested_types)
        path.insert(0, siblings.index(descriptor))
        descriptor = descriptor.containing_type
    names = list(descriptor.file.message_types_by_name)
    return [names.index(descriptor.name), *path]


def _compiled(file: Any) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _known_file(name: str) -> Any:
    """A file of the Protobuf library, or of a generated module that the application has imported."""
    from contextlib import suppress
    from importlib import import_module

    from google.protobuf import descriptor_pb2, descriptor_pool

    if name.startswith("google/protobuf/"):
        with suppress(ImportError):
            import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    try:
        descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    except KeyError:
        raise ValueError(f"the schema imports {name}, which is not known") from None
    return file
