"""Our serializers with schemas in a context: what such a schema refers to is in the same context."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import ottla.testing
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.serdes.protocol import Header
from ottla.serdes.registry_client import RegistryClient, SchemaText
from tests.support.registries import registry_process

# The cluster is shared: other modules have other names. Both contexts have a schema `City` under the same name and
# version.
CONTEXT = ":.lab-of-contexts:"
CITY_SUBJECT = "city-of-contexts"
CITY = '{"type":"record","name":"City","fields":[{"name":"name","type":"string"}]}'
OTHER_CITY = '{"type":"record","name":"City","fields":[{"name":"number","type":"long"}]}'
TRIP = '{"type":"record","name":"Trip","fields":[{"name":"to","type":"City"}]}'
VALUE = {"to": {"name": "Rome"}}
FULL = (("City", CONTEXT + CITY_SUBJECT, 1),)


@pytest.fixture(scope="module")
def url(shared_cluster: ottla.testing.Cluster) -> Iterator[str]:
    with registry_process(shared_cluster.bootstrap) as registry:
        registry.register(CITY_SUBJECT, OTHER_CITY)
        assert registry.register(CONTEXT + CITY_SUBJECT, CITY) == 1
        yield registry.url


@pytest.fixture
def client(url: str) -> Iterator[RegistryClient]:
    client = RegistryClient(url)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def subject_in_context(topic: str, is_key: bool, record: str | None) -> str:
    del is_key, record
    return CONTEXT + topic


@pytest.fixture
def config() -> dict[str, Any]:
    return {"subject.name.strategy": subject_in_context}


def trip(subject: str = CITY_SUBJECT) -> SchemaText:
    return SchemaText(TRIP, references=(("City", subject, 1),))


@pytest.mark.parametrize("subject", [CITY_SUBJECT, CONTEXT + CITY_SUBJECT])
def test_every_request_gives_references_with_their_context(client: RegistryClient, topic: str, subject: str) -> None:
    name, schema = CONTEXT + topic, trip(subject)
    registered = client.register(name, schema)
    assert registered.schema.references == FULL
    assert client.lookup(name, schema).schema.references == FULL
    assert client.lookup(name, registered.schema).id == registered.id
    assert client.version(name, 1).references == FULL
    assert client.latest(name).schema.references == FULL
    assert client.latest(name, metadata={}).schema.references == FULL
    assert client.schema_by_id(registered.id, name).references == FULL
    assert client.schema_by_id(registered.id, CONTEXT).references == FULL
    assert client.schema_by_guid(registered.guid).references == FULL
    # The registry searches other contexts for a name without one.
    assert client.version(topic, 1).references == FULL


@pytest.mark.parametrize(
    "setting", [{}, {"schema.id.serializer": "header"}, {"auto.register.schemas": False}, {"use.latest.version": True}]
)
def test_values_with_a_schema_in_a_context(
    client: RegistryClient, url: str, config: dict[str, Any], topic: str, setting: dict[str, Any]
) -> None:
    if setting and "schema.id.serializer" not in setting:
        client.register(CONTEXT + topic, trip())
    headers: list[Header] = []
    data = AvroSerializer(trip(), client=client, config=config | setting).serialize(topic, VALUE, headers)
    reader = AvroDeserializer(client=RegistryClient(url), config=config | setting)
    assert reader.deserialize(topic, data, headers) == VALUE
    reader.close()


def test_the_id_of_a_setting(client: RegistryClient, config: dict[str, Any], topic: str) -> None:
    schema_id = client.register(CONTEXT + topic, trip()).id
    writer = AvroSerializer(trip(), client=client, config=config | {"use.schema.id": schema_id})
    data = writer.serialize(topic, VALUE)
    assert AvroDeserializer(client=client, config=config).deserialize(topic, data) == VALUE


def test_the_comparison_with_the_latest_version(client: RegistryClient, config: dict[str, Any], topic: str) -> None:
    client.register(CONTEXT + topic, trip())
    strict = config | {"use.latest.version": True, "latest.compatibility.strict": True}
    assert AvroSerializer(trip(), client=client, config=strict).serialize(topic, VALUE) is not None


def test_an_id_is_read_in_the_context_of_the_subject(client: RegistryClient, config: dict[str, Any]) -> None:
    """The id 1 of the default context is another schema."""
    data = AvroSerializer(CITY, client=client, config=config).serialize(CITY_SUBJECT, {"name": "Rome"})
    assert AvroDeserializer(client=client, config=config).deserialize(CITY_SUBJECT, data) == {"name": "Rome"}


def by_record(topic: str, is_key: bool, record: str | None) -> str:
    """A subject with the name of the record, which is not known before the schema is read."""
    del is_key
    assert record is not None
    return f"{topic}-{record.upper()}"


@pytest.mark.parametrize("strategy", [by_record, "RecordNameStrategy", "AssociatedNameStrategy"])
def test_other_subjects_are_read_as_before(client: RegistryClient, topic: str, strategy: Any) -> None:
    config = {"subject.name.strategy": strategy}
    schema = json.loads(CITY) | {"name": f"City_{topic.replace('-', '_')}"}
    data = AvroSerializer(schema, client=client, config=config).serialize(topic, {"name": "Rome"})
    assert AvroDeserializer(client=client, config=config).deserialize(topic, data) == {"name": "Rome"}


def test_a_client_whose_address_ends_with_the_context(url: str, topic: str) -> None:
    client = RegistryClient(f"{url}/contexts/{CONTEXT.strip(':')}")
    data = AvroSerializer(trip(), client=client).serialize(topic, VALUE)
    client.close()
    reader = AvroDeserializer(client=client)
    assert reader.deserialize(topic, data) == VALUE
    assert client.latest(f"{topic}-value").schema.references == FULL
    reader.close()


def test_files_that_a_protobuf_message_imports(
    client: RegistryClient, url: str, config: dict[str, Any], topic: str
) -> None:
    """They are registered in the context of the message's subject."""
    suffix = topic.replace("-", "_")
    city = descriptor_pb2.FileDescriptorProto(name=f"city_{suffix}.proto", package=suffix, syntax="proto3")
    city.message_type.add(name="City").field.add(name="name", number=1, type=9, label=1)
    file = descriptor_pb2.FileDescriptorProto(
        name=f"trip_{suffix}.proto", package=suffix, syntax="proto3", dependency=[city.name]
    )
    file.message_type.add(name="Trip").field.add(name="to", number=1, type=11, label=1, type_name=f".{suffix}.City")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(city)
    pool.Add(file)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{suffix}.Trip"))
    value = kind()
    value.to.name = "Rome"
    data = ProtobufSerializer(client=client, config=config).serialize(topic, value)
    reader = ProtobufDeserializer(client=RegistryClient(url), config=config)
    read: Any = reader.deserialize(topic, data)
    reader.close()
    assert read.to.name == "Rome"
    assert client.latest(CONTEXT + city.name).version == 1
    assert CONTEXT + city.name in client.call("GET", "/subjects")
    assert city.name not in client.call("GET", "/subjects")
    # The same message without a context.
    assert ProtobufSerializer(client=client).serialize(topic, value) is not None
    assert city.name in client.call("GET", "/subjects")


def test_versions_of_an_id_by_a_name_without_a_context(client: RegistryClient, url: str, topic: str) -> None:
    """Migrations begin at the version of the id."""
    schema_id = client.register(CONTEXT + topic, trip()).id
    inside = RegistryClient(f"{url}/contexts/{CONTEXT.strip(':')}")
    assert client.versions_of_id(schema_id, CONTEXT + topic) == [1]
    assert inside.versions_of_id(schema_id, topic) == [1]
    inside.close()
