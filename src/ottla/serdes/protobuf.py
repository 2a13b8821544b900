"""Protobuf with a registry: generated classes, or messages of classes that are built from the registry's schema."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.schema_serde import SchemaDeserializer, SchemaSerializer, referenced_texts
from ottla.serdes.wire_format import SchemaTag

__all__ = ["ProtobufDeserializer", "ProtobufSerializer"]

# Registries have these files themselves.
_PROVIDED = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerializer(SchemaSerializer[Any]):
    """Values are messages. Files that the message's file imports are registered as references, under their names."""

    schema_type = "PROTOBUF"

    def __init__(self, *, client: RegistryClient | None = None, config: Mapping[str, Any] | None = None) -> None:
        self._schemas: dict[Any, SchemaText] = {}
        super().__init__(client, config)

    def _schema_of(self, value: Any, topic: str) -> SchemaText:
        file = value.DESCRIPTOR.file
        found = self._schemas.get(file)
        if found is None:
            found = self._schemas[file] = SchemaText(_compiled(file), "PROTOBUF", self._references(file))
        return found

    def _record_name(self, value: Any, schema: SchemaText) -> str | None:
        return str(value.DESCRIPTOR.full_name)

    def _encode(self, value: Any, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        from google.protobuf.message import EncodeError

        try:
            return value.SerializeToString(), message_path(value.DESCRIPTOR)
        except EncodeError as error:
            missing = value.FindInitializationErrors()
            raise self._error(topic, f"{error}.", field=missing[0] if missing else None) from error

    def _references(self, file: Any) -> tuple[tuple[str, str, int], ...]:
        found = []
        for dependency in file.dependencies:
            if dependency.name.startswith(_PROVIDED):
                continue
            schema = SchemaText(_compiled(dependency), "PROTOBUF", self._references(dependency))
            registered = self.client.register(dependency.name, schema, normalize=self._settings.normalize)
            version = registered.version or self.client.lookup(dependency.name, schema).version
            found.append((dependency.name, dependency.name, version))
        return tuple(found)


class ProtobufDeserializer(SchemaDeserializer[Any]):
    """With a class, messages of this class; without one, messages of the class that wrote them."""

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
        super().__init__(client, config)

    def _decode(self, payload: memoryview, tag: SchemaTag, schema: SchemaText, topic: str) -> Any:
        from google.protobuf.message import DecodeError

        made = self._message_class or self._class(schema, tag.indexes)
        try:
            return made.FromString(bytes(payload))  # type: ignore[attr-defined]
        except DecodeError as error:
            raise self._error(topic, f"the bytes are not a message of schema {tag.id or tag.guid}: {error}.") from error

    def _writer(self, tag: SchemaTag, topic: str) -> SchemaText:
        # A given class needs no schema of the writer.
        return SchemaText("", "PROTOBUF") if self._message_class is not None else super()._writer(tag, topic)

    def _class(self, schema: SchemaText, indexes: tuple[int, ...]) -> type:
        found = self._classes.get((schema, indexes))
        if found is None:
            found = self._classes[schema, indexes] = message_class(self.client, schema, indexes)
        return found


def message_class(client: RegistryClient, schema: SchemaText, indexes: Sequence[int]) -> type:
    """The class of a message of a serialized schema. Raises ValueError."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pool.Default()
    files: dict[str, Any] = {}
    for name, text in (*referenced_texts(client, schema, form="serialized").items(), ("", schema)):
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text.text))
        file.name = name or file.name
        files[file.name] = file

    def add(name: str) -> None:
        file = files.pop(name, None)
        if file is None:
            _import_provided(name)
            try:
                file = descriptor_pb2.FileDescriptorProto()
                known.FindFileByName(name).CopyToProto(file)
            except KeyError:
                raise ValueError(f"the schema imports {name}, which is not known") from None
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
        found: Any = list(descriptors)[indexes[0]]
        for index in indexes[1:]:
            found = found.nested_types[index]
    except (TypeError, IndexError, KeyError) as error:
        raise ValueError(f"the message {list(indexes)} of its schema cannot be built: {error}") from error
    made: type = message_factory.GetMessageClass(found)
    return made


def message_path(descriptor: Any) -> list[int]:
    """The indexes that lead from the file to the message."""
    path: list[int] = []
    while descriptor.containing_type is not None:
        siblings = list(descriptor.containing_type.nested_types)
        path.insert(0, siblings.index(descriptor))
        descriptor = descriptor.containing_type
    names = list(descriptor.file.message_types_by_name)
    return [names.index(descriptor.name), *path]


def _compiled(file: Any) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _import_provided(name: str) -> None:
    from contextlib import suppress
    from importlib import import_module

    if name.startswith("google/protobuf/"):
        with suppress(ImportError):
            import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
