"""Converters with a Schema Registry: messages contain the id of their schema.

Messages are read with the schema that wrote them, as columns of the subject's latest schema. Messages of a source are
written with the schema in `schema`, or with one that is derived from the source's own and registered under the subject.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.connect.api import ConfigDefinitions, ConfigType, ConnectError, Importance, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.base import STAGED, ColumnConverter, Converted, java_names
from ottla.connect.plugins.converters.registry_schemas import json_schema_of, proto_of
from ottla.serdes.registry_client import RegistryClientError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "JsonSchemaConverter",
    "ProtobufConverter",
    "decode_with_registry",
    "encode_with_registry",
    "registry_settings",
]

_CREDENTIALS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "schema.registry.ssl.ca.location",
    "schema.registry.ssl.certificate.location",
    "schema.registry.ssl.key.location",
)


def registry_settings(definitions: ConfigDefinitions) -> ConfigDefinitions:
    """Adds the settings that every converter with a registry has."""
    definitions = definitions.define(
        "schema.registry.url",
        ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        documentation="The address of the Schema Registry, or several separated by commas.",
    ).define(
        "subject",
        ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        documentation="The subject of the schema. For a connector with one topic it is TOPIC-value, or TOPIC-key.",
    )
    for name in _CREDENTIALS:
        definitions = definitions.define(
            name,
            ConfigType.PASSWORD if "auth" in name else ConfigType.STRING,
            default=None,
            importance=Importance.MEDIUM,
            documentation="Credentials for the registry, as in the serializers of `ottla.serdes`.",
        )
    return definitions


def decode_with_registry(converter: ColumnConverter, column: str) -> Converted:
    from ottla.spark.registry import UnsupportedSchema, from_registry, registry_type

    config, subject = _registry(converter)
    try:
        decoded = from_registry(sql.col(column), config, subject=subject, mode="COLUMN")
        given = schema.schema_from_spark(registry_type(config, subject))
    except (RegistryClientError, UnsupportedSchema) as error:
        raise ConnectError(f"The schema {subject} cannot be used: {error}") from error
    staged = sql.col(STAGED)
    return Converted(
        staged=decoded,
        column=staged.getField("value"),
        schema=given,
        failed=staged.getField("problem").isNotNull(),
        message=staged.getField("problem"),
    )


def encode_with_registry(converter: ColumnConverter, column: Column, text: str, schema_type: str) -> Converted:
    from ottla.spark.registry import to_registry

    config, subject = _registry(converter)
    try:
        encoded = to_registry(column, config, subject=subject, schema=text, schema_type=schema_type, mode="COLUMN")
    except RegistryClientError as error:
        raise ConnectError(f"The registry refused the schema of {subject}: {error}") from error
    staged = sql.col(STAGED)
    return Converted(
        staged=encoded,
        column=staged.getField("bytes"),
        failed=staged.getField("problem").isNotNull(),
        message=staged.getField("problem"),
    )


class _RegistryConverter(ColumnConverter):
    schema_type = ""
    derive: Callable[[schema.Schema], str]

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return registry_settings(ConfigDefinitions()).define(
            "schema",
            ConfigType.STRING,
            default=None,
            importance=Importance.MEDIUM,
            documentation="The schema of what a source writes. Without it, one that follows from the source's own.",
        )

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        text = self.settings.text_or_none("schema") or type(self).derive(given)
        return encode_with_registry(self, column, text, self.schema_type)

    def decode(self, frame: DataFrame, column: str) -> Converted:
        return decode_with_registry(self, column)


class JsonSchemaConverter(_RegistryConverter):
    """JSON with a schema in a registry."""

    aliases = java_names("io.confluent.connect.json.JsonSchemaConverter")
    schema_type = "JSON"
    derive = staticmethod(lambda given: json.dumps(json_schema_of(given)))


class ProtobufConverter(_RegistryConverter):
    """Protobuf with a schema in a registry."""

    aliases = java_names("io.confluent.connect.protobuf.ProtobufConverter")
    schema_type = "PROTOBUF"
    derive = staticmethod(proto_of)


def _registry(converter: ColumnConverter) -> tuple[dict[str, Any], str]:
    settings = converter.settings
    url, subject = settings.text_or_none("schema.registry.url"), settings.text_or_none("subject")
    if url is None or subject is None:
        raise ConnectError(
            f"{type(converter).__name__} needs schema.registry.url, and subject unless the connector has one topic"
        )
    credentials = {name: settings.text_or_none(name) for name in _CREDENTIALS}
    return {"schema.registry.url": url} | {name: value for name, value in credentials.items() if value}, subject
