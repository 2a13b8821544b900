"""Avro with a registry: dictionaries, dataclasses and plain values.

A record names its writer's schema; a reader's schema, if set, decides which fields the application gets (schema
evolution). Without a schema, a serializer derives one from the dataclass or plain type of the value.
"""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.serdes.avro_classes import avro_of_class, avro_of_value, to_class
from ottla.serdes.avro_fields import avro_walk
from ottla.serdes.avro_limits import ValueLimits, endless_record, value_limits
from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.rules.contracts import FieldWalk
from ottla.serdes.schema_serde import SchemaDeserializer, SchemaSerializer, referenced_texts
from ottla.serdes.wire_format import SchemaTag

__all__ = ["AvroDeserializer", "AvroSerializer"]

_DAMAGED = (ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, struct.error, AttributeError)


class AvroSerializer(SchemaSerializer[Any]):
    schema_type = "AVRO"

    def __init__(
        self,
        schema: str | Mapping[str, Any] | SchemaText | None = None,
        *,
        client: RegistryClient | None = None,
        config: Mapping[str, Any] | None = None,
        to_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        self._schema = _schema_text(schema)
        self._to_dict = to_dict
        self._derived: dict[type, SchemaText] = {}
        self._parsed: dict[SchemaText, Any] = {}
        self._walks: dict[SchemaText, FieldWalk] = {}
        super().__init__(client, config)

    def _schema_of(self, value: Any, topic: str) -> SchemaText:
        if self._schema is not None:
            return self._schema
        kind = type(value)
        schema = self._derived.get(kind)
        if schema is None:
            avro = avro_of_class(kind) if dataclasses.is_dataclass(kind) else avro_of_value(value)
            schema = self._derived[kind] = SchemaText(json.dumps(avro))
        return schema

    def _record_name(self, value: Any, schema: SchemaText) -> str | None:
        return _record_name(schema)

    def _plain(self, value: Any) -> Any:
        if self._to_dict is not None:
            return self._to_dict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        return value

    def _walk(self, schema: SchemaText, value: Any) -> FieldWalk:
        walk = self._walks.get(schema)
        if walk is None:
            walk = self._walks[schema] = avro_walk(self._parse(schema))
        return walk

    def _parse(self, schema: SchemaText) -> Any:
        parsed = self._parsed.get(schema)
        if parsed is None:
            parsed = self._parsed[schema] = parse_avro(self.client, schema)
        return parsed

    def _encode(self, value: Any, schema: SchemaText, topic: str) -> tuple[bytes, Sequence[int] | None]:
        import fastavro

        parsed = self._parse(schema)
        buffer = io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, parsed, value)
        except _DAMAGED as error:
            field, reason = _misfit(value, parsed)
            raise self._error(topic, reason or f"it does not fit the Avro schema: {error}.", field=field) from error
        return buffer.getvalue(), None


class AvroDeserializer(SchemaDeserializer[Any]):
    def __init__(
        self,
        reader_schema: str | Mapping[str, Any] | SchemaText | None = None,
        *,
        client: RegistryClient | None = None,
        config: Mapping[str, Any] | None = None,
        to: type | Callable[[Any], Any] | None = None,
    ) -> None:
        """`to` is a dataclass, or a function of the dictionary."""
        self._reader = _schema_text(reader_schema)
        if self._reader is None and isinstance(to, type) and dataclasses.is_dataclass(to):
            self._reader = SchemaText(json.dumps(avro_of_class(to)))
        self._to = to
        self._parsed: dict[SchemaText, Any] = {}
        self._limits: dict[SchemaText, ValueLimits | None] = {}
        self._walks: dict[SchemaText, FieldWalk] = {}
        super().__init__(client, config)

    def _own_reader(self) -> SchemaText | None:
        return self._reader

    def _writer_name(self, writer: SchemaText, tag: SchemaTag) -> str | None:
        return _record_name(writer)

    def _walk(self, schema: SchemaText, value: Any, tag: SchemaTag) -> FieldWalk:
        walk = self._walks.get(schema)
        if walk is None:
            walk = self._walks[schema] = avro_walk(self._parse(schema))
        return walk

    def _decode(
        self, payload: memoryview, tag: SchemaTag, writer: SchemaText, reader: SchemaText | None, topic: str
    ) -> Any:
        import fastavro
        from fastavro.read import SchemaResolutionError

        buffer = io.BytesIO(payload)
        try:
            parsed = self._parse(writer)
            limits = self._limits.get(writer)
            if limits is not None:
                limits.check(payload)
            value = fastavro.schemaless_reader(buffer, parsed, None if reader is None else self._parse(reader))
        except SchemaResolutionError as error:
            writer_id = tag.id or tag.guid
            raise self._error(
                topic, f"the reader's schema cannot read values of schema {writer_id}: {error}."
            ) from error
        except _DAMAGED as error:
            raise self._error(topic, f"the bytes are not Avro of schema {tag.id or tag.guid}: {error}.") from error
        if buffer.tell() != len(payload):
            raise self._error(topic, f"{len(payload) - buffer.tell()} bytes follow the Avro value.")
        return value

    def _finished(self, value: Any, schema: SchemaText, topic: str) -> Any:
        if self._to is None:
            return value
        return to_class(value, self._to) if isinstance(self._to, type) else self._to(value)

    def _parse(self, schema: SchemaText) -> Any:
        parsed = self._parsed.get(schema)
        if parsed is None:
            parsed = parse_avro(self.client if schema.references else None, schema)
            self._limits[schema] = value_limits(parsed)
            self._parsed[schema] = parsed
        return parsed


def parse_avro(client: RegistryClient | None, schema: SchemaText) -> Any:
    """A schema for fastavro, with the types that it refers to. Raises ValueError."""
    import fastavro

    named: dict[str, Any] = {}
    try:
        if client is not None and schema.references:
            for text in referenced_texts(client, schema).values():
                fastavro.parse_schema(json.loads(text.text), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ValueError(f"its Avro schema is not valid: {error}") from error
    endless = endless_record(parsed)
    if endless is not None:
        raise ValueError(f"its Avro schema is not valid: every {endless} contains another {endless}, without an end")
    return parsed


def _record_name(schema: SchemaText) -> str | None:
    try:
        avro = json.loads(schema.text)
    except ValueError as error:
        raise ValueError(f"its Avro schema is not JSON: {error}") from error
    if not isinstance(avro, dict) or "name" not in avro:
        return None
    namespace = avro.get("namespace")
    return f"{namespace}.{avro['name']}" if namespace and "." not in avro["name"] else str(avro["name"])


def _schema_text(schema: str | Mapping[str, Any] | SchemaText | None) -> SchemaText | None:
    if schema is None or isinstance(schema, SchemaText):
        return schema
    return SchemaText(schema if isinstance(schema, str) else json.dumps(schema))


def _misfit(value: Any, parsed: Any) -> tuple[str | None, str | None]:
    """The field that does not fit, and the reason."""
    from fastavro.validation import ValidationError, validate

    try:
        validate(value, parsed)
    except ValidationError as error:
        first = error.errors[0]
        return first.field, f"{first.datum!r} ({type(first.datum).__name__}) is not of type {_named(first.schema)}."
    except _DAMAGED:
        pass
    return None, None


def _named(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name") or schema.get("type"))
    return " or ".join(_named(branch) for branch in schema) if isinstance(schema, list) else str(schema)
