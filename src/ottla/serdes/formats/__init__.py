"""The schema languages of the registry."""

from __future__ import annotations

from ottla.serdes.formats.base import (
    AVRO,
    FIELD,
    JSON,
    PROTOBUF,
    RECORD,
    Entity,
    InvalidSchema,
    ParsedSchema,
    SchemaSource,
    Tags,
)

__all__ = [
    "AVRO",
    "FIELD",
    "JSON",
    "PROTOBUF",
    "RECORD",
    "TYPES",
    "Entity",
    "InvalidSchema",
    "ParsedSchema",
    "SchemaSource",
    "Tags",
    "parse",
]

# In the order in which registries list them.
TYPES = (JSON, PROTOBUF, AVRO)


def parse(source: SchemaSource) -> ParsedSchema:
    """Raises InvalidSchema. Each language is imported when its first schema is parsed."""
    if source.schema_type == AVRO:
        from ottla.serdes.formats.avro import parse_avro

        return parse_avro(source)
    if source.schema_type == JSON:
        from ottla.serdes.formats.json_schema import parse_json_schema

        return parse_json_schema(source)
    if source.schema_type == PROTOBUF:
        from ottla.serdes.formats.protobuf import parse_protobuf

        return parse_protobuf(source)
    raise InvalidSchema(f"Invalid schema type {source.schema_type}")
