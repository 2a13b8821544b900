"""`from_registry` and `to_registry`: columns with the schemas of a registry.

    people = from_registry("value", "http://localhost:8081", topic="people")
    spark.readStream.format("ottla").option("subscribe", "people").load().select(people.alias("person"))

The type of the column is that of the latest schema when the query is planned. Records are decoded with the schema that
wrote them, and Avro's rules of schema evolution apply, so producers may evolve while a query runs. Executors ask the
registry once for each schema.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import (
    RegisteredSchema,
    RegistryClient,
    SchemaText,
    is_registry_failure,
    registry_client,
)
from ottla.serdes.rules.contracts import RuleMode, refuse_rules
from ottla.serdes.schema_serde import referenced_texts
from ottla.spark.registry_types import UnsupportedSchema, avro_type, json_type, protobuf_type
from ottla.spark.registry_values import (
    column_value,
    fill_message,
    json_value,
    message_value,
    plain_value,
    values_with_problems,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column

__all__ = ["UnsupportedSchema", "from_registry", "latest_type", "registry_type", "to_registry"]

_MODES = ("FAILFAST", "PERMISSIVE", "COLUMN")


@dataclass(frozen=True, slots=True)
class _GivenSubject:
    """A subject name strategy: the subject that the caller names, whose data keys encrypt its fields."""

    subject: str

    def __call__(self, topic: str, is_key: bool, record: str | None) -> str:
        del topic, is_key, record
        return self.subject


def from_registry(
    column: Column | str,
    registry: str | Mapping[str, Any],
    *,
    topic: str = "",
    subject: str | None = None,
    is_key: bool = False,
    mode: str = "FAILFAST",
) -> Column:
    """A column of binary values as a column of the schema's type.

    `registry` is an address or the settings of serializers. `mode` decides about a value that cannot be decoded:
    FAILFAST fails the query, PERMISSIVE gives null, and COLUMN gives a struct of `value` and `problem`, so that such
    records can be sent to a dead-letter topic. If the registry does not answer, the query fails in every mode.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql import types as spark

    _check_mode(mode)
    config = _config(registry, subject, is_key=is_key)
    latest = _latest(config, _subject(topic, subject, is_key=is_key))
    value_type = _type_of(config, latest.schema)
    result = spark.StructType(
        [spark.StructField("value", value_type), spark.StructField("problem", spark.StringType())]
    )
    settings, schema, is_strict = _packed(config), latest.schema, mode.upper() == "FAILFAST"

    def decoded(values: pyarrow.Array) -> pyarrow.Array:
        return _decode(values, settings, schema, topic, result, is_key=is_key, is_strict=is_strict)

    structs = _arrow_function(decoded, result)(sql.col(column) if isinstance(column, str) else column)
    return structs if mode.upper() == "COLUMN" else structs.getField("value")


def to_registry(
    column: Column | str,
    registry: str | Mapping[str, Any],
    *,
    topic: str = "",
    subject: str | None = None,
    is_key: bool = False,
    schema: str | None = None,
    schema_type: str = "AVRO",
    mode: str = "FAILFAST",
) -> Column:
    """A column as binary values with the id of a schema: the given one, which is registered, or the latest.

    `mode` is that of `from_registry`; COLUMN gives a struct of `bytes` and `problem`.
    """
    from pyspark.sql import functions as sql

    _check_mode(mode)
    config = _config(registry, subject, is_key=is_key)
    name = _subject(topic, subject, is_key=is_key)
    if schema is not None:
        client = registry_client(config)
        client.register(name, SchemaText(schema, schema_type))
        client.close()
    latest = _latest(config, name)
    settings, is_strict = _packed(config), mode.upper() == "FAILFAST"

    def encoded(values: pyarrow.Array) -> pyarrow.Array:
        return _encode(values, settings, latest, topic or name, is_key=is_key, is_strict=is_strict)

    result = "struct<bytes:binary,problem:string>"
    structs = _arrow_function(encoded, result)(sql.col(column) if isinstance(column, str) else column)
    return structs if mode.upper() == "COLUMN" else structs.getField("bytes")


def registry_type(registry: str | Mapping[str, Any], subject: str) -> Any:
    """The Spark type of a subject's latest schema."""
    config = _config(registry)
    return _type_of(config, _latest(config, subject).schema)


def latest_type(registry: Mapping[str, Any], subject: str) -> tuple[RegisteredSchema, Any]:
    """A subject's latest schema, and its Spark type."""
    latest = _latest(registry, subject)
    return latest, _type_of(registry, latest.schema)


def _check_mode(mode: str) -> None:
    if mode.upper() not in _MODES:
        raise ValueError(f"mode is {mode}, but it must be one of {', '.join(_MODES)}.")


def _config(registry: str | Mapping[str, Any], subject: str | None = None, *, is_key: bool = False) -> dict[str, Any]:
    config: dict[str, Any] = {"schema.registry.url": registry} if isinstance(registry, str) else dict(registry)
    if subject is not None:
        config[f"{'key' if is_key else 'value'}.subject.name.strategy"] = _GivenSubject(subject)
    return config


def _packed(config: Mapping[str, Any]) -> bytes:
    """The settings for executors. As bytes they are also the key of the executor's caches."""
    from pyspark import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps(dict(config))
    except Exception as error:
        raise ValueError(f"A setting of the registry cannot be sent to executors: {error}.") from error
    return packed


def _unpacked(settings: bytes) -> dict[str, Any]:
    config: dict[str, Any] = pickle.loads(settings)
    return config


def _subject(topic: str, subject: str | None, *, is_key: bool) -> str:
    if subject is not None:
        return subject
    if not topic:
        raise ValueError("Name the topic, or the subject of the schema.")
    return f"{topic}-{'key' if is_key else 'value'}"


def _latest(config: Mapping[str, Any], subject: str) -> RegisteredSchema:
    client = registry_client(config)
    try:
        latest = client.latest(subject)
        if latest.schema.schema_type == "PROTOBUF":
            latest = client.latest(subject, form="serialized")
        return latest
    finally:
        client.close()


def _type_of(config: Mapping[str, Any], schema: SchemaText) -> Any:
    client = registry_client(config)
    try:
        if schema.schema_type == "AVRO":
            named: dict[str, Any] = {}
            for text in referenced_texts(client, schema).values():
                avro_type(json.loads(text.text), named)
            return avro_type(json.loads(schema.text), named)
        if schema.schema_type == "PROTOBUF":
            from ottla.serdes.protobuf import message_class

            return protobuf_type(message_class(client, schema, [0]).DESCRIPTOR)  # type: ignore[attr-defined]
        return json_type(json.loads(schema.text))
    finally:
        client.close()


def _arrow_function(function: Any, result: Any) -> Any:
    """A column function from a function of Arrow arrays. Spark evaluates its annotations, which are only names here."""
    import pyarrow
    from pyspark.sql.functions import arrow_udf

    function.__annotations__ = {"values": pyarrow.Array, "return": pyarrow.Array}
    return arrow_udf(function, result)


@functools.lru_cache(maxsize=64)
def _deserializer(settings: bytes, schema: SchemaText, is_key: bool) -> Any:
    """The deserializer of a worker process, which keeps the schemas that it has read."""
    if schema.schema_type == "AVRO":
        from ottla.serdes.avro import AvroDeserializer

        deserializer: Any = AvroDeserializer(schema)
    elif schema.schema_type == "PROTOBUF":
        from ottla.serdes.protobuf import ProtobufDeserializer, message_class

        deserializer = ProtobufDeserializer(message_class(_client(settings), schema, [0]))
    else:
        from ottla.serdes.json_schema import JsonSchemaDeserializer

        deserializer = JsonSchemaDeserializer()
    deserializer.configure(_unpacked(settings), is_key=is_key)
    return deserializer


@functools.lru_cache(maxsize=8)
def _client(settings: bytes) -> RegistryClient:
    return registry_client(_unpacked(settings))


def _decode(
    values: pyarrow.Array,
    settings: bytes,
    schema: SchemaText,
    topic: str,
    result: Any,
    *,
    is_key: bool,
    is_strict: bool,
) -> pyarrow.Array:
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_type

    deserializer = _deserializer(settings, schema, is_key)
    value_type = result.fields[0].dataType
    rows = []
    for data in values.to_pylist():
        row: dict[str, Any] = {"value": None, "problem": None}
        try:
            value = deserializer.deserialize(topic, data)
            if value is not None and schema.schema_type == "PROTOBUF":
                value = message_value(value)
            row["value"] = column_value(value, value_type)
        except (SerializationError, AttributeError, ValueError, TypeError, OverflowError) as error:
            if is_strict or is_registry_failure(error):
                raise
            row["problem"] = str(error)
        rows.append(row)
    arrow_type = to_arrow_type(result, timezone="UTC")
    return pyarrow.array(rows, type=arrow_type) if is_strict else values_with_problems(rows, arrow_type)


def _encode(
    values: pyarrow.Array,
    settings: bytes,
    latest: RegisteredSchema,
    topic: str,
    *,
    is_key: bool,
    is_strict: bool,
) -> pyarrow.Array:
    import pyarrow

    write = _writer(settings, latest, is_key)
    contents: list[bytes | None] = []
    problems: list[str | None] = []
    for value in values.to_pylist():
        content, problem = None, None
        try:
            content = None if value is None else write(topic, plain_value(value, values.type))
        except (SerializationError, ValueError, TypeError) as error:
            if is_strict or is_registry_failure(error):
                raise
            problem = str(error)
        contents.append(content)
        problems.append(problem)
    return pyarrow.StructArray.from_arrays(
        [pyarrow.array(contents, pyarrow.binary()), pyarrow.array(problems, pyarrow.string())], ["bytes", "problem"]
    )


@functools.lru_cache(maxsize=64)
def _writer(settings: bytes, latest: RegisteredSchema, is_key: bool) -> Any:
    if latest.schema.schema_type == "PROTOBUF":
        from ottla.serdes.protobuf import message_class
        from ottla.serdes.wire_format import tagged_value

        refuse_rules(latest.schema, RuleMode.WRITE)
        message_type = message_class(_client(settings), latest.schema, [0])

        def write(topic: str, value: Any) -> bytes:
            del topic
            return tagged_value(latest.id, fill_message(message_type(), value).SerializeToString(), [0])

        return write
    config = {**_unpacked(settings), "use.schema.id": latest.id}
    if latest.schema.schema_type == "AVRO":
        from ottla.serdes.avro import AvroSerializer

        serializer: Any = AvroSerializer(latest.schema)
    else:
        from ottla.serdes.json_schema import JsonSchemaSerializer

        serializer = JsonSchemaSerializer(latest.schema, to_dict=json_value)
    serializer.configure(config, is_key=is_key)
    return serializer.serialize
