"""`--key-format` and `--value-format`: the conversion of records from and to text.

`consume` prints a decoded key or value as JSON or text; `produce` reads the same text. The formats of schemas need a
registry, from which the schema comes: by the id in the record, or the latest version of the topic's subject.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from ottla.cli.failures import Failure
from ottla.cli.logic.line_reader import LineRecord
from ottla.client.consumer import ConsumedRecord

__all__ = ["FORMATS", "Convert", "Decode", "decoding", "encoding"]

WITH_SCHEMA = ("avro", "protobuf", "jsonschema")
FORMATS = (*WITH_SCHEMA, "json", "string", "int", "long", "short", "float", "double", "boolean", "uuid", "bytes")

Decode = Callable[[ConsumedRecord], ConsumedRecord]
# Converts a record of the command's input for a topic.
Convert = Callable[[str, LineRecord], LineRecord]


def decoding(key_format: str | None, value_format: str | None, registry: str | None) -> Decode | None:
    """None without formats. The function raises ValueError for a record that cannot be decoded."""
    if key_format is None and value_format is None:
        return None
    read_key = None if key_format is None else _reader(key_format, registry, is_key=True)
    read_value = None if value_format is None else _reader(value_format, registry, is_key=False)

    def decode(record: ConsumedRecord) -> ConsumedRecord:
        from ottla.serdes import SerializationError

        try:
            return record._replace(
                key=record.key if read_key is None else read_key(record, record.key),
                value=record.value if read_value is None else read_value(record, record.value),
            )
        except SerializationError as error:
            raise ValueError(error.reason.rstrip(".")) from None

    return decode


def encoding(
    key_format: str | None,
    value_format: str | None,
    registry: str | None,
    *,
    key_schema: str | None = None,
    value_schema: str | None = None,
) -> Convert | None:
    """None without formats. `key_schema` and `value_schema` are texts of schemas to register."""
    if key_format is None and value_format is None:
        return None
    write_key = None if key_format is None else _writer(key_format, registry, key_schema, is_key=True)
    write_value = None if value_format is None else _writer(value_format, registry, value_schema, is_key=False)

    def convert(topic: str, record: LineRecord) -> LineRecord:
        from ottla.serdes import SerializationError

        try:
            return record._replace(
                key=record.key if write_key is None else write_key(topic, record.key),
                value=record.value if write_value is None else write_value(topic, record.value),
            )
        except SerializationError as error:
            raise ValueError(str(error)) from None

    return convert


def _reader(form: str, registry: str | None, *, is_key: bool) -> Callable[[ConsumedRecord, bytes | None], bytes | None]:
    deserializer = _deserializer(form, registry, is_key=is_key)

    def read(record: ConsumedRecord, data: bytes | None) -> bytes | None:
        value = deserializer.deserialize(record.topic, data, record.headers)
        return None if data is None else _shown(value, form)

    return read


def _deserializer(form: str, registry: str | None, *, is_key: bool) -> Any:
    if form not in WITH_SCHEMA:
        from ottla.serdes import plain_serde

        plain = plain_serde(form).deserializer
        plain.configure({}, is_key=is_key)
        return plain
    config = {"schema.registry.url": _address(registry, form)}
    if form == "avro":
        from ottla.serdes.avro import AvroDeserializer

        deserializer: Any = AvroDeserializer()
    elif form == "protobuf":
        from ottla.serdes.protobuf import ProtobufDeserializer

        deserializer = ProtobufDeserializer()
    else:
        from ottla.serdes.json_schema import JsonSchemaDeserializer

        deserializer = JsonSchemaDeserializer()
    deserializer.configure(config, is_key=is_key)
    return deserializer


def _shown(value: Any, form: str) -> bytes:
    if form == "protobuf":
        from google.protobuf.json_format import MessageToDict

        value = MessageToDict(value, preserving_proto_field_name=True)
    if isinstance(value, bytes):
        return value
    if isinstance(value, str) and form not in ("json", "jsonschema"):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> str:
    """Values of types that JSON lacks: bytes in base64, times and decimals as text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _writer(
    form: str, registry: str | None, schema: str | None, *, is_key: bool
) -> Callable[[str, bytes | None], bytes | None]:
    if form in WITH_SCHEMA:
        return _schema_writer(form, _address(registry, form), schema, is_key=is_key)
    if schema is not None:
        raise Failure(f"A schema is given, but the format {form} has none.")
    from ottla.serdes import plain_serde

    serializer = plain_serde(form).serializer
    serializer.configure({}, is_key=is_key)

    def write(topic: str, data: bytes | None) -> bytes | None:
        return None if data is None else serializer.serialize(topic, _typed(data, form))

    return write


def _typed(data: bytes, form: str) -> Any:
    if form == "bytes":
        return data
    text = data.decode()
    if form == "string":
        return text
    if form == "uuid":
        from uuid import UUID

        return UUID(text)
    try:
        return float(text) if form in ("float", "double") else json.loads(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a value of the format {form}.") from None


def _schema_writer(
    form: str, registry: str, schema: str | None, *, is_key: bool
) -> Callable[[str, bytes | None], bytes | None]:
    from ottla.serdes.registry_client import RegistryClient

    client = RegistryClient(registry)
    if form == "protobuf":
        return _protobuf_writer(client, schema, is_key=is_key)
    config: dict[str, Any] = {"use.latest.version": schema is None}
    if form == "avro":
        from ottla.serdes.avro import AvroSerializer

        serializer: Any = AvroSerializer(schema or '"null"', client=client)
    else:
        from ottla.serdes.json_schema import JsonSchemaSerializer

        serializer = JsonSchemaSerializer(schema or "{}", client=client)
    serializer.configure(config, is_key=is_key)

    def write(topic: str, data: bytes | None) -> bytes | None:
        return None if data is None else serializer.serialize(topic, _parsed(data))

    return write


def _protobuf_writer(client: Any, schema: str | None, *, is_key: bool) -> Callable[[str, bytes | None], bytes | None]:
    """A writer of JSON values as the first message of the schema."""
    from google.protobuf.json_format import Parse, ParseError

    from ottla.serdes.protobuf import message_class
    from ottla.serdes.registry_client import RegistryClientError, SchemaText
    from ottla.serdes.rules.contracts import RuleMode, refuse_rules
    from ottla.serdes.wire_format import tagged_value

    messages: dict[str, tuple[int, type]] = {}

    def message_of(topic: str) -> tuple[int, type]:
        if topic not in messages:
            subject = f"{topic}-{'key' if is_key else 'value'}"
            if schema is not None:
                client.register(subject, SchemaText(schema, "PROTOBUF"))
            latest = client.latest(subject, form="serialized")
            refuse_rules(latest.schema, RuleMode.WRITE)
            messages[topic] = (latest.id, message_class(client, latest.schema, [0]))
        return messages[topic]

    def write(topic: str, data: bytes | None) -> bytes | None:
        if data is None:
            return None
        try:
            schema_id, message = message_of(topic)
            return tagged_value(schema_id, Parse(data, message()).SerializeToString(), [0])
        except ParseError as error:
            raise ValueError(f"The value does not fit the Protobuf schema: {error}.") from None
        except RegistryClientError as error:
            raise ValueError(f"The registry: {error}") from None

    return write


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise ValueError(f"The value is not JSON: {error}.") from None


def _address(registry: str | None, form: str) -> str:
    if registry is None:
        raise Failure(f"The format {form} needs a registry: add --registry http://localhost:8081.")
    return registry
