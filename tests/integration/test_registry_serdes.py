"""Our serializers with a registry: they and confluent-kafka's serializers read each other's data."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

import ottla.testing
from ottla.serdes import SerializationError
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.formats import SchemaSource, parse
from ottla.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.serdes.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.serdes.protocol import Header
from ottla.serdes.registry_client import RegistryClient, RegistryClientError
from tests.support.registries import RegistryProcess, registry_process

PERSON = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"}]}'
WITH_AGE = (
    '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":["null","int"],"default":null}]}'
)
PLACE = (
    '{"title":"Place","type":"object","properties":{"city":{"type":"string"},"at":{"type":"object","properties":'
    '{"lat":{"type":"number"}}}},"required":["city"],"additionalProperties":false}'
)


@dataclass
class Address:
    city: str
    lines: list[str] = field(default_factory=list)


@dataclass
class Customer:
    name: str
    address: Address
    age: int | None = None
    scores: dict[str, float] = field(default_factory=dict)


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    with registry_process(shared_cluster.bootstrap) as process:
        yield process


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[RegistryClient]:
    client = RegistryClient(registry.url)
    yield client
    client.close()


@pytest.fixture
def theirs(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def test_avro_in_both_directions(client: RegistryClient, theirs: SchemaRegistryClient, topic: str) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    value = {"name": "Ada", "age": 36}
    ours = AvroSerializer(WITH_AGE, client=client).serialize(topic, value)
    assert ours is not None
    assert ours == their_avro.AvroSerializer(theirs, WITH_AGE)(value, context)
    assert their_avro.AvroDeserializer(theirs)(ours, context) == value
    assert AvroDeserializer(client=client).deserialize(topic, ours) == value


def test_avro_evolves(client: RegistryClient, topic: str) -> None:
    old_data = AvroSerializer(PERSON, client=client).serialize(topic, {"name": "Ada"})
    new_data = AvroSerializer(WITH_AGE, client=client).serialize(topic, {"name": "Bob", "age": 7})
    assert AvroDeserializer(WITH_AGE, client=client).deserialize(topic, old_data) == {"name": "Ada", "age": None}
    assert AvroDeserializer(PERSON, client=client).deserialize(topic, new_data) == {"name": "Bob"}
    latest = AvroDeserializer(client=client, config={"use.latest.version": "true"})
    assert latest.deserialize(topic, old_data) == {"name": "Ada", "age": None}


def test_an_incompatible_schema_stops_the_producer(client: RegistryClient, topic: str) -> None:
    AvroSerializer(PERSON, client=client).serialize(topic, {"name": "Ada"})
    other = AvroSerializer(PERSON.replace('"name":"name"', '"name":"label"'), client=client)
    with pytest.raises(SerializationError, match="incompatible with an earlier schema"):
        other.serialize(topic, {"label": "x"})


def test_dataclasses(client: RegistryClient, topic: str) -> None:
    customer = Customer("Ada", Address("Rome", ["a", "b"]), 36, {"x": 1.5})
    data = AvroSerializer(client=client).serialize(topic, customer)
    assert AvroDeserializer(client=client, to=Customer).deserialize(topic, data) == customer
    assert AvroSerializer(client=client).serialize(f"{topic}-plain", "text") is not None


def test_the_field_that_does_not_fit_is_named(client: RegistryClient, topic: str) -> None:
    with pytest.raises(SerializationError, match=r"field x\.Person\.age of the value of t-") as caught:
        AvroSerializer(WITH_AGE, client=client).serialize(topic, {"name": "Ada", "age": "old"})
    assert caught.value.topic == topic
    with pytest.raises(SerializationError, match=r"field at\.lat of the value") as caught:
        JsonSchemaSerializer(PLACE, client=client).serialize(
            f"{topic}-places", {"city": "Rome", "at": {"lat": "north"}}
        )
    assert caught.value.field == "at.lat"


def test_damaged_values_are_refused(client: RegistryClient, topic: str) -> None:
    data = AvroSerializer(PERSON, client=client).serialize(topic, {"name": "Ada"})
    assert data is not None
    reader = AvroDeserializer(client=client)
    for wrong in (b"", b"text", data[:-1], data + b"x", b"\0\x7f\0\0\0x"):
        with pytest.raises(SerializationError):
            reader.deserialize(topic, wrong)
    assert reader.deserialize(topic, None) is None


def test_the_guid_in_a_header(client: RegistryClient, theirs: SchemaRegistryClient, topic: str) -> None:
    config = {"value.schema.id.serializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"}
    headers: list[Header] = [("kept", b"1")]
    data = AvroSerializer(PERSON, client=client, config=config).serialize(topic, {"name": "Ada Lovelace"}, headers)
    assert [name for name, _ in headers] == ["kept", "__value_schema_id"]
    assert AvroDeserializer(client=client).deserialize(topic, data, headers) == {"name": "Ada Lovelace"}
    context = SerializationContext(topic, MessageField.VALUE, headers)
    assert their_avro.AvroDeserializer(theirs)(data, context) == {"name": "Ada Lovelace"}


def test_subjects_by_strategy(client: RegistryClient, topic: str) -> None:
    config = {"subject.name.strategy": "TopicRecordNameStrategy"}
    data = AvroSerializer(PERSON, client=client, config=config).serialize(topic, {"name": "Ada"})
    assert f"{topic}-x.Person" in client.call("GET", "/subjects")
    assert AvroDeserializer(client=client, config=config).deserialize(topic, data) == {"name": "Ada"}


def test_schemas_that_must_exist(client: RegistryClient, topic: str) -> None:
    strict = AvroSerializer(PERSON, client=client, config={"auto.register.schemas": False})
    with pytest.raises(SerializationError, match="not found"):
        strict.serialize(topic, {"name": "Ada"})
    AvroSerializer(PERSON, client=client).serialize(topic, {"name": "Ada"})
    assert strict.serialize(topic, {"name": "Ada"}) is not None


def test_json_schema_in_both_directions(client: RegistryClient, theirs: SchemaRegistryClient, topic: str) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    value = {"city": "Rome", "at": {"lat": 41.9}}
    ours = JsonSchemaSerializer(PLACE, client=client).serialize(topic, value)
    assert their_json.JSONDeserializer(PLACE, schema_registry_client=theirs)(ours, context) == value
    written = their_json.JSONSerializer(PLACE, theirs)(value, context)
    assert JsonSchemaDeserializer(client=client).deserialize(topic, written) == value


def test_protobuf_in_both_directions(client: RegistryClient, theirs: SchemaRegistryClient, topic: str) -> None:
    classes = message_classes(
        {
            "common.proto": 'syntax = "proto3"; package c; message Money { int64 cents = 1; }',
            "shop.proto": 'syntax = "proto3"; package s; import "common.proto"; import '
            '"google/protobuf/timestamp.proto"; message First { string x = 1; } message Order { message Item { '
            "c.Money price = 1; google.protobuf.Timestamp at = 2; } repeated Item items = 1; }",
        }
    )
    item = classes["s.Order.Item"]
    message = item(price={"cents": 5}, at={"seconds": 3})
    context = SerializationContext(topic, MessageField.VALUE)
    settings = {"use.deprecated.format": False}
    ours = ProtobufSerializer(client=client).serialize(topic, message)
    assert ours == their_protobuf.ProtobufSerializer(item, theirs, settings)(message, context)
    read = their_protobuf.ProtobufDeserializer(item, settings, schema_registry_client=theirs)
    assert read(ours, context) == message
    assert ProtobufDeserializer(item, client=client).deserialize(topic, ours) == message
    built = ProtobufDeserializer(client=client).deserialize(topic, ours)
    assert (built.price.cents, built.at.seconds) == (5, 3)


def test_values_for_the_latest_version_are_compared_if_that_is_wanted(
    registry: RegistryProcess, client: RegistryClient, topic: str
) -> None:
    subject = f"{topic}-value"
    latest = {"auto.register.schemas": False, "use.latest.version": True, "latest.cache.ttl.sec": 0}
    strict = latest | {"latest.compatibility.strict": "true"}
    registry.register(subject, WITH_AGE)
    ada = {"name": "Ada", "age": 36}
    # The latest version gives absent fields their defaults.
    assert AvroSerializer(PERSON, client=client, config=strict).serialize(topic, ada)
    assert registry.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})[0] == 200
    registry.register(subject, WITH_AGE.replace(',"default":null', ""))
    serializer = AvroSerializer(PERSON, client=client, config=strict)
    for _ in range(2):
        with pytest.raises(SerializationError, match=r"not compatible with the latest version 2 of .*strict=false"):
            serializer.serialize(topic, ada)
    assert AvroSerializer(PERSON, client=client, config=latest).serialize(topic, ada)
    place = JsonSchemaSerializer(PLACE.replace('"required":["city"],', ""), client=client, config=strict)
    with pytest.raises(SerializationError, match="is a schema of type AVRO, not JSON"):
        place.serialize(topic, {"city": "Paris"})
    registry.register(f"{topic}-json-value", PLACE, schemaType="JSON")
    with pytest.raises(SerializationError, match="not compatible with the latest version 1"):
        place.serialize(f"{topic}-json", {"city": "Paris"})
    registry.register(
        f"{topic}-proto-value", 'syntax = "proto3"; message Timestamp { string seconds = 1; }', schemaType="PROTOBUF"
    )
    with pytest.raises(SerializationError, match="not compatible with the latest version 1"):
        ProtobufSerializer(client=client, config=strict).serialize(f"{topic}-proto", timestamp_pb2.Timestamp(seconds=1))


def test_an_unreachable_registry_is_named() -> None:
    with pytest.raises(RegistryClientError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        RegistryClient("http://127.0.0.1:1").call("GET", "/subjects")
    with pytest.raises(ValueError, match=r"schema\.registry\.url is missing"):
        AvroSerializer(PERSON).configure({}, is_key=False)


def message_classes(files: dict[str, str]) -> dict[str, type]:
    """Classes of all messages of .proto files, as a compiler would make them."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    compiled_files: list[tuple[str, str]] = []
    classes: dict[str, type] = {}
    for name, text in files.items():
        compiled = parse(SchemaSource("PROTOBUF", text, tuple(compiled_files))).formatted("serialized")
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(compiled))
        file.name = name
        pool.AddSerializedFile(file.SerializeToString())
        compiled_files.append((name, text))
        waiting = list(pool.FindFileByName(name).message_types_by_name.values())
        while waiting:
            descriptor = waiting.pop()
            classes[descriptor.full_name] = message_factory.GetMessageClass(descriptor)
            waiting += descriptor.nested_types
    return classes
