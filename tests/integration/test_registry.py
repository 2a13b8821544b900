"""The registry under confluent-kafka's own client and serializers, and its REST interface as Confluent documents it."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Metadata, MetadataProperties, Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.rules.encryption.dek_registry.dek_registry_client import (
    DekAlgorithm,
    DekRegistryClient,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, json_format, message_factory, timestamp_pb2
from google.protobuf.message import Message

import ottla.testing
from ottla.serdes.formats import SchemaSource, parse
from tests.support.registries import RegistryProcess, registry_process

PERSON = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"}]}'
WITH_AGE = (
    '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":["null","int"],"default":null}]}'
)
RENAMED = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"label","type":"string"}]}'


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    with registry_process(shared_cluster.bootstrap) as process:
        yield process


@pytest.fixture
def client(registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:8]}"


def test_versions_ids_and_lookups(client: SchemaRegistryClient, subject: str) -> None:
    first = client.register_schema(subject, Schema(PERSON, "AVRO"))
    assert client.register_schema(f"{subject}-other", Schema(PERSON, "AVRO")) == first
    second = client.register_schema(subject, Schema(WITH_AGE, "AVRO"))
    assert second > first
    assert client.get_versions(subject) == [1, 2]
    latest = client.get_latest_version(subject)
    assert (latest.version, latest.schema_id) == (2, second)
    assert client.lookup_schema(subject, Schema(PERSON, "AVRO")).version == 1
    by_guid = client.get_schema_by_guid(latest.guid)
    assert by_guid.schema_str == latest.schema.schema_str
    assert subject in client.get_subjects()


def test_an_incompatible_schema_is_refused_with_its_reasons(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, Schema(PERSON, "AVRO"))
    with pytest.raises(SchemaRegistryError, match="READER_FIELD_MISSING_DEFAULT_VALUE") as caught:
        client.register_schema(subject, Schema(RENAMED, "AVRO"))
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert client.test_compatibility(subject, Schema(RENAMED, "AVRO")) is False
    client.set_compatibility(subject, "NONE")
    assert client.get_compatibility(subject) == "NONE"
    client.register_schema(subject, Schema(RENAMED, "AVRO"))


def test_deletion_is_soft_and_then_permanent(client: SchemaRegistryClient, subject: str) -> None:
    first = client.register_schema(subject, Schema(PERSON, "AVRO"))
    client.register_schema(subject, Schema(WITH_AGE, "AVRO"))
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    assert client.register_schema(subject, Schema(PERSON.replace("Person", "Human"), "AVRO")) > first


def test_avro_serializers(client: SchemaRegistryClient) -> None:
    context = SerializationContext(f"t-{uuid.uuid4().hex}", MessageField.VALUE)
    write = AvroSerializer(client, WITH_AGE)
    read = AvroDeserializer(client)
    value = {"name": "Ada", "age": 36}
    assert read(write(value, context), context) == value


def test_json_schema_serializers(client: SchemaRegistryClient) -> None:
    context = SerializationContext(f"t-{uuid.uuid4().hex}", MessageField.VALUE)
    schema = '{"title":"P","type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
    write = JSONSerializer(schema, client)
    read = JSONDeserializer(schema, schema_registry_client=client)
    assert read(write({"name": "Ada"}, context), context) == {"name": "Ada"}


ORDERS = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Customer { string name = 1; optional int32 age = 2; }
message Order {
  message Item { string article = 1; sint64 number = 2; }
  repeated Item items = 1;
  map<string, Customer> parties = 2;
  oneof payment { string card = 3; bool cash = 4; }
  google.protobuf.Timestamp at = 5;
  Kind kind = 6;
  enum Kind { USUAL = 0; URGENT = 1; }
}
"""


@pytest.fixture(scope="module")
def order_classes() -> dict[str, type[Message]]:
    compiled = parse(SchemaSource("PROTOBUF", ORDERS)).formatted("serialized")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(base64.b64decode(compiled))
    names = ("Customer", "Order", "Order.Item")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}


@pytest.mark.parametrize("name", ["Customer", "Order", "Order.Item"])
def test_protobuf_serializers(client: SchemaRegistryClient, order_classes: dict[str, type[Message]], name: str) -> None:
    """The deserializer asks the registry for the compiled schema (`format=serialized`)."""
    context = SerializationContext(f"t-{uuid.uuid4().hex}", MessageField.VALUE)
    texts = {
        "Customer": '{"name": "Ada", "age": 0}',
        "Order": '{"items": [{"article": "x", "number": "-3"}], "parties": {"to": {"name": "Bob"}}, "cash": true, '
        '"at": "2026-05-31T12:00:00Z", "kind": "URGENT"}',
        "Order.Item": '{"article": "y"}',
    }
    message = json_format.Parse(texts[name], order_classes[name]())
    settings = {"use.deprecated.format": False}
    write = ProtobufSerializer(type(message), client, settings)
    read = ProtobufDeserializer(type(message), settings, schema_registry_client=client)
    assert read(write(message, context), context) == message
    with SchemaRegistryClient({"url": client._rest_client.base_urls[0]}) as other_client:
        read = ProtobufDeserializer(type(message), settings, schema_registry_client=other_client)
        assert read(write(message, context), context) == message


def test_protobuf_text_is_found_again_by_its_compiled_form(registry: RegistryProcess, subject: str) -> None:
    schema_id = registry.register(subject, ORDERS, schemaType="PROTOBUF")
    compiled = registry.get(f"/schemas/ids/{schema_id}?format=serialized")["schema"]
    body = {"schema": compiled, "schemaType": "PROTOBUF"}
    assert registry.ask("POST", f"/subjects/{subject}?normalize=true", body)[1]["id"] == schema_id
    assert registry.get(f"/subjects/{subject}/versions/1")["schema"].startswith('syntax = "proto3";\npackage shop;\n')


def test_references(client: SchemaRegistryClient, subject: str) -> None:
    address = '{"type":"record","name":"Address","namespace":"x","fields":[{"name":"city","type":"string"}]}'
    order = '{"type":"record","name":"Order","namespace":"x","fields":[{"name":"to","type":"x.Address"}]}'
    client.register_schema(f"{subject}-address", Schema(address, "AVRO"))
    reference = SchemaReference("x.Address", f"{subject}-address", 1)
    schema = Schema(order, "AVRO", references=[reference])
    schema_id = client.register_schema(subject, schema)
    assert client.get_referenced_by(f"{subject}-address", 1) == [schema_id]
    context = SerializationContext(subject, MessageField.VALUE)
    write, read = AvroSerializer(client, schema), AvroDeserializer(client)
    assert read(write({"to": {"city": "Rome"}}, context), context) == {"to": {"city": "Rome"}}
    with pytest.raises(SchemaRegistryError, match="references exist") as caught:
        client.delete_subject(f"{subject}-address")
    assert caught.value.error_code == 42206


def test_metadata(client: SchemaRegistryClient, subject: str) -> None:
    for number, schema in enumerate((PERSON, WITH_AGE), start=1):
        metadata = Metadata(tags=None, properties=MetadataProperties({"major": str(number)}), sensitive=None)
        client.register_schema(subject, Schema(schema, "AVRO", metadata=metadata))
    assert client.get_latest_with_metadata(subject, {"major": "1"}).version == 1


def test_a_pipeline_with_an_evolving_schema(
    shared_cluster: ottla.testing.Cluster, client: SchemaRegistryClient, subject: str
) -> None:
    """Old and new producers write to one topic; a consumer with the new schema reads both."""
    producer = Producer({"bootstrap.servers": shared_cluster.bootstrap})
    context = SerializationContext(subject, MessageField.VALUE)
    for schema, value in ((PERSON, {"name": "Ada"}), (WITH_AGE, {"name": "Bob", "age": 7})):
        producer.produce(subject, AvroSerializer(client, schema)(value, context))
    producer.flush(30)
    settings = {"bootstrap.servers": shared_cluster.bootstrap, "group.id": subject, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([subject])
    read = AvroDeserializer(client, WITH_AGE)
    people = [read(message.value(), context) for _ in range(2) if (message := consumer.poll(60)) is not None]
    consumer.close()
    assert people == [{"name": "Ada", "age": None}, {"name": "Bob", "age": 7}]


def test_metadata_of_the_registry(registry: RegistryProcess) -> None:
    assert registry.get("/v1/metadata/deployment") == {"attributes": {}}
    assert registry.get("/v1/metadata/version")["commitId"] == "ottla"
    assert registry.get("/v1/metadata/id")["scope"]["clusters"]["schema-registry-cluster"] == "schema-registry"


def test_error_codes(registry: RegistryProcess, subject: str) -> None:
    body = {"schema": PERSON}
    path = f"/subjects/{subject}"
    assert registry.code("GET", f"{path}/versions") == (404, 40401)
    assert registry.code("GET", "/schemas/ids/999999") == (404, 40403)
    assert registry.code("POST", path, body) == (404, 40401)
    registry.register(subject, PERSON)
    assert registry.code("GET", f"{path}/versions/7") == (404, 40402)
    assert registry.code("GET", f"{path}/versions/zero") == (422, 42202)
    assert registry.code("POST", path, {"schema": RENAMED}) == (404, 40403)
    assert registry.code("POST", f"{path}/versions", {"schema": "{"}) == (422, 42201)
    assert registry.code("POST", f"{path}/versions", {"schema": PERSON, "schemaType": "XML"}) == (422, 42201)
    assert registry.code("PUT", f"/config/{subject}", {"compatibility": "SOME"}) == (422, 42203)
    assert registry.code("PUT", f"/mode/{subject}", {"mode": "SOME"}) == (422, 42204)
    assert registry.code("GET", f"/config/{subject}") == (404, 40408)
    assert registry.code("GET", f"/mode/{subject}") == (404, 40409)
    assert registry.code("DELETE", f"{path}?permanent=true") == (404, 40405)
    assert registry.code("DELETE", f"{path}/versions/1?permanent=true") == (404, 40407)
    assert registry.ask("DELETE", path) == (200, [1])
    assert registry.code("DELETE", path) == (404, 40404)
    assert registry.code("DELETE", f"{path}/versions/1") == (404, 40406)
    assert registry.code("GET", "/no/such/path") == (404, 404)
    assert registry.ask("DELETE", f"{path}?permanent=true") == (200, [1])


def test_modes(registry: RegistryProcess, subject: str) -> None:
    assert registry.ask("PUT", f"/mode/{subject}", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert registry.code("POST", f"/subjects/{subject}/versions", {"schema": PERSON}) == (422, 42205)
    assert registry.ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    status, answer = registry.ask(
        "POST", f"/subjects/{subject}/versions", {"schema": '"bytes"', "id": 5_000_000, "version": 7}
    )
    assert (status, answer["id"], answer["version"]) == (200, 5_000_000, 7)
    assert registry.ask("DELETE", f"/mode/{subject}") == (200, {"mode": "IMPORT"})
    assert registry.get(f"/mode/{subject}?defaultToGlobal=true") == {"mode": "READWRITE"}


def test_contexts_have_ids_of_their_own(registry: RegistryProcess, subject: str) -> None:
    context = f".{subject}"
    qualified = f":{context}:{subject}"
    assert registry.register(qualified, PERSON) == 1
    assert context in registry.get("/contexts")
    assert qualified in registry.get("/subjects")
    assert registry.get(f"/subjects?subjectPrefix=:{context}:") == [qualified]
    assert qualified not in registry.get("/subjects?subjectPrefix=")
    assert registry.get(f"/schemas/ids/1?subject={qualified}")["schema"] == PERSON
    assert registry.get(f"/subjects/{qualified}/versions") == [1]


def test_a_default_that_does_not_fit_is_refused(registry: RegistryProcess, subject: str) -> None:
    wrong = PERSON.replace('"type":"string"', '"type":["null","string"],"default":"null"')
    status, answer = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": wrong})
    assert (status, answer["error_code"]) == (422, 42201)
    assert "default of the field name of x.Person" in answer["message"]


def test_answers_of_an_id(registry: RegistryProcess, subject: str) -> None:
    schema_id = registry.register(subject, '{"type": "string"}')
    value = registry.get(f"/schemas/ids/{schema_id}?fetchMaxId=true")
    assert value["schema"] == '"string"'
    assert value["maxId"] >= schema_id
    assert registry.get(f"/schemas/ids/{schema_id}/schema") == "string"
    assert subject in registry.get(f"/schemas/ids/{schema_id}/subjects")
    assert {"subject": subject, "version": 1} in registry.get(f"/schemas/ids/{schema_id}/versions")
    assert {"context": ".", "id": schema_id} in registry.get(f"/schemas/guids/{value['guid']}/ids")


def test_verbose_compatibility(registry: RegistryProcess, subject: str) -> None:
    registry.register(subject, PERSON)
    path = f"/compatibility/subjects/{subject}/versions/latest"
    assert registry.ask("POST", path, {"schema": WITH_AGE}) == (200, {"is_compatible": True})
    status, answer = registry.ask("POST", f"{path}?verbose=true", {"schema": RENAMED})
    assert (status, answer["is_compatible"]) == (200, False)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer["messages"][0]
    assert registry.ask("POST", "/compatibility/subjects/none/versions/latest", {"schema": PERSON})[1] == {
        "is_compatible": True
    }


def test_a_restarted_registry_and_a_second_one_have_the_same_schemas(
    shared_cluster: ottla.testing.Cluster, registry: RegistryProcess, subject: str
) -> None:
    """The second instance forwards writes to the writer, and then answers its clients with the written schemas."""
    first = registry.register(subject, PERSON)
    with registry_process(shared_cluster.bootstrap) as second:
        assert second.get(f"/schemas/ids/{first}")["schema"] == PERSON
        status, answer = second.ask("POST", f"/subjects/{subject}/versions", {"schema": WITH_AGE})
        assert (status, answer["version"]) == (200, 2), answer
        assert second.get(f"/subjects/{subject}/versions") == [1, 2]
        assert registry.get(f"/subjects/{subject}/versions") == [1, 2]
        assert second.code("POST", f"/subjects/{subject}/versions", {"schema": RENAMED}) == (409, 409)
        assert sorted(second.get("/subjects")) == sorted(registry.get("/subjects"))


def test_records_have_confluents_form(
    shared_cluster: ottla.testing.Cluster, registry: RegistryProcess, subject: str
) -> None:
    registry.register(subject, PERSON)
    settings = {"bootstrap.servers": shared_cluster.bootstrap, "group.id": subject, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["_schemas"])
    wanted = f'{{"keytype":"SCHEMA","subject":"{subject}","version":1,"magic":1}}'.encode()
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.key() == wanted:
            break
    consumer.close()
    value = json.loads(message.value())
    assert list(value) == ["subject", "version", "id", "schemaType", "schema", "deleted"]
    assert (value["schema"], value["deleted"]) == (PERSON, False)


def test_keys_of_encrypted_fields(registry: RegistryProcess, subject: str) -> None:
    """confluent-kafka's own client stores and finds keys."""
    with DekRegistryClient({"url": registry.url}) as client:
        kek = client.register_kek(subject, "local-kms", "some-key", shared=False, kms_props={"a": "b"}, doc="for tests")
        assert client.get_kek(subject).kms_key_id == kek.kms_key_id == "some-key"
        dek = client.register_dek(subject, "orders-value", "bWF0ZXJpYWw=", algorithm=DekAlgorithm.AES256_GCM)
        assert dek.encrypted_key_material == "bWF0ZXJpYWw="
        stored_dek = client.get_dek(subject, "orders-value", algorithm=DekAlgorithm.AES256_GCM, version=-1)
        assert (stored_dek.version, stored_dek.encrypted_key_material) == (1, "bWF0ZXJpYWw=")
    path = f"/dek-registry/v1/keks/{subject}"
    assert registry.get(f"{path}/deks") == ["orders-value"]
    assert registry.get(f"{path}/deks/orders-value/versions") == [1]
    body = {"name": subject, "kmsType": "local-kms", "kmsKeyId": "other"}
    assert registry.code("POST", "/dek-registry/v1/keks", body) == (409, 40971)
    assert registry.code("GET", "/dek-registry/v1/keks/none") == (404, 40470)
    assert registry.code("DELETE", path) == (403, 40370)
    assert registry.code("POST", "/dek-registry/v1/keks", {**body, "name": "n", "shared": True}) == (422, 42271)
    assert registry.ask("DELETE", f"{path}/deks/orders-value") == (204, None)
    assert registry.code("GET", f"{path}/deks/orders-value") == (404, 40470)
    assert registry.ask("DELETE", f"{path}/deks/orders-value?permanent=true") == (204, None)
    assert registry.ask("DELETE", path) == (204, None)
    assert registry.ask("POST", f"{path}/undelete", {}) == (204, None)
    assert registry.get(path)["name"] == subject


def test_paths_may_end_with_a_slash_and_head_is_answered(registry: RegistryProcess, subject: str) -> None:
    registry.register(subject, PERSON)
    for path in ("/subjects", f"/subjects/{subject}/versions", f"/subjects/{subject}/versions/latest", "/config"):
        assert registry.get(path + "/") == registry.get(path)
        assert registry.ask("HEAD", path) == (200, None)
    assert registry.ask("HEAD", "/subjects/unknown/versions") == (404, None)


def test_half_a_surrogate_pair_is_no_text(registry: RegistryProcess, subject: str) -> None:
    body = {"schema": '"string"', "metadata": {"properties": {"a": "\ud800"}}}
    assert registry.code("POST", f"/subjects/{subject}/versions", body) == (422, 422)
    assert registry.code("GET", f"/schemas/ids/{'9' * 5_000}") == (404, 404)


def test_a_version_of_a_deleted_subject_is_not_found(registry: RegistryProcess, subject: str) -> None:
    registry.register(subject, PERSON)
    registry.register(subject, WITH_AGE)
    assert registry.ask("DELETE", f"/subjects/{subject}/versions/1") == (200, 1)
    assert registry.code("GET", f"/subjects/{subject}/versions/1") == (404, 40402)
    assert registry.ask("DELETE", f"/subjects/{subject}") == (200, [2])
    for version in ("1", "latest"):
        assert registry.code("GET", f"/subjects/{subject}/versions/{version}") == (404, 40401)
    assert registry.get(f"/subjects/{subject}/versions/1?deleted=true")["version"] == 1


def test_an_address_may_end_with_a_context(registry: RegistryProcess, subject: str) -> None:
    context = f".{subject}"
    with SchemaRegistryClient({"url": f"{registry.url}/contexts/{context}"}) as client:
        first = client.register_schema("a/b", Schema(PERSON, "AVRO"))
        assert client.get_subjects() == [f":{context}:a/b"]
        assert client.get_latest_version("a/b").subject == f":{context}:a/b"
        assert (
            client.get_schema(first).schema_str == registry.get(f"/schemas/ids/{first}?subject=:{context}:")["schema"]
        )
        client.set_compatibility("a/b", "NONE")
        client.set_compatibility(level="FULL")
        assert client.test_compatibility("a/b", Schema(RENAMED, "AVRO"))
    assert registry.get(f"/config/:{context}:")["compatibilityLevel"] == "FULL"
    assert registry.get("/config")["compatibilityLevel"] == "BACKWARD"
    assert registry.code("GET", f"/contexts/{context}/unknown") == (404, 404)
