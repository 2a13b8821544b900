"""Encrypted fields and their tags: our serializers and those of confluent-kafka read each other's data."""

from __future__ import annotations

import base64
import copy
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import ottla.testing
from ottla.encryption import FileKeyService
from ottla.encryption.file_keys import KeyFile
from ottla.serdes import SerializationError
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.serdes.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.serdes.registry_client import RegistryClient
from tests.support.contracts import (
    ADA,
    AVRO,
    LATEST,
    SECRET,
    condition,
    context,
    encrypting,
    register_their_rules,
    registered,
    their_registry,
)
from tests.support.registries import RegistryProcess, registry_process

JSON = {
    "type": "object",
    "title": "Person",
    "properties": {
        "name": {"type": "string"},
        "ssn": {"type": "string", "confluent:tags": ["PII"]},
        "home": {"$ref": "#/definitions/Address"},
    },
    "definitions": {
        "Address": {"type": "object", "properties": {"street": {"type": "string", "confluent:tags": ["PII"]}}}
    },
}


@pytest.fixture(scope="module", autouse=True)
def their_global_rules() -> None:
    register_their_rules()


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


@pytest.fixture
def their_rules() -> Iterator[RuleRegistry]:
    """A separate rule registry for a serializer: encrypting executors keep the registry of their first serializer."""
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
    from confluent_kafka.schema_registry.rules.encryption.encrypt_executor import (
        EncryptionExecutor,
        FieldEncryptionExecutor,
    )

    kinds: list[Any] = [CelExecutor, FieldEncryptionExecutor, EncryptionExecutor]
    rules = their_registry()
    executors = [kind() for kind in kinds]
    for executor in executors:
        rules.register_executor(executor)
    yield rules
    for executor in executors:
        executor.close()


@pytest.mark.parametrize("algorithm", ["AES256_GCM", "AES128_GCM", "AES256_SIV"])
@pytest.mark.parametrize("days", ["0", "7"])
def test_encrypted_fields_in_both_directions(
    registry: RegistryProcess,
    client: RegistryClient,
    theirs: SchemaRegistryClient,
    their_rules: RuleRegistry,
    topic: str,
    algorithm: str,
    days: str,
) -> None:
    params = {"encrypt.dek.algorithm": algorithm, "encrypt.dek.expiry.days": days}
    registered(registry, topic, AVRO, encrypting(topic, params=params))
    ours = AvroSerializer(AVRO, client=client, config=LATEST | SECRET)
    their = their_avro.AvroSerializer(theirs, json.dumps(AVRO), None, LATEST, SECRET, their_rules)
    our_reader = AvroDeserializer(client=client, config=SECRET)
    their_reader = their_avro.AvroDeserializer(theirs, rule_conf=SECRET, rule_registry=their_rules)
    first, second = ours.serialize(topic, ADA), their(copy.deepcopy(ADA), context(topic))
    assert first is not None
    assert second is not None
    for data in (first, second):
        assert b"123-45" not in data
        assert b"Main" not in data
        assert our_reader.deserialize(topic, data) == ADA
        assert their_reader(data, context(topic)) == ADA
    assert (first == second) == (algorithm == "AES256_SIV"), "deterministic encryption gives the same bytes"


def test_a_readers_own_schema_does_not_hide_encryption(
    registry: RegistryProcess, client: RegistryClient, topic: str
) -> None:
    registered(registry, topic, AVRO, encrypting(topic))
    data = AvroSerializer(AVRO, client=client, config=LATEST | SECRET).serialize(topic, ADA)
    fields = [{"name": "ssn", "type": ["null", "string"]}, {"name": "age", "type": "long"}]
    reader = {"type": "record", "name": "Person", "namespace": "x", "fields": fields}
    wanted = {"ssn": "123-45-6789", "age": 36}
    assert AvroDeserializer(reader, client=client, config=SECRET).deserialize(topic, data) == wanted


def test_a_key_service_of_ottla(registry: RegistryProcess, client: RegistryClient, topic: str, tmp_path: Path) -> None:
    KeyFile(str(tmp_path / "keys.json")).create("orders")
    params = {"encrypt.kms.type": "ottla", "encrypt.kms.key.id": "orders"}
    registered(registry, topic, AVRO, encrypting(topic, params=params))
    config = LATEST | {"key.services": {"ottla": FileKeyService(str(tmp_path / "keys.json"))}}
    data = AvroSerializer(AVRO, client=client, config=config).serialize(topic, ADA)
    assert data is not None
    assert b"Main" not in data
    assert AvroDeserializer(client=client, config=config).deserialize(topic, data) == ADA
    with pytest.raises(SerializationError, match=r"is in the key service ottla: set key\.services with an entry ottla"):
        AvroDeserializer(client=client).deserialize(topic, data)


def test_encrypted_fields_of_json(
    registry: RegistryProcess,
    client: RegistryClient,
    theirs: SchemaRegistryClient,
    their_rules: RuleRegistry,
    topic: str,
) -> None:
    registered(registry, topic, JSON, encrypting(topic), schemaType="JSON")
    value = {"name": "Ada", "ssn": "123-45", "home": {"street": "Main"}}
    ours = JsonSchemaSerializer(JSON, client=client, config=LATEST | SECRET).serialize(topic, value)
    their_writer = their_json.JSONSerializer(
        json.dumps(JSON), theirs, conf=LATEST, rule_conf=SECRET, rule_registry=their_rules
    )
    theirs_data = their_writer(copy.deepcopy(value), context(topic))
    their_reader = their_json.JSONDeserializer(
        None, schema_registry_client=theirs, rule_conf=SECRET, rule_registry=their_rules
    )
    for data in (ours, theirs_data):
        assert data is not None
        assert b"123-45" not in data
        assert b"Main" not in data
        assert JsonSchemaDeserializer(client=client, config=SECRET).deserialize(topic, data) == value
        assert their_reader(data, context(topic)) == value


def test_an_encrypted_payload(
    registry: RegistryProcess,
    client: RegistryClient,
    theirs: SchemaRegistryClient,
    their_rules: RuleRegistry,
    topic: str,
) -> None:
    rule = encrypting(topic, type="ENCRYPT_PAYLOAD") | {"tags": None}
    registered(registry, topic, AVRO, rule, phase="encodingRules")
    ours = AvroSerializer(AVRO, client=client, config=LATEST | SECRET).serialize(topic, ADA)
    their = their_avro.AvroSerializer(theirs, json.dumps(AVRO), None, LATEST, SECRET, their_rules)
    for data in (ours, their(copy.deepcopy(ADA), context(topic))):
        assert data is not None
        assert b"Ada" not in data
        assert AvroDeserializer(client=client, config=SECRET).deserialize(topic, data) == ADA
        reader = their_avro.AvroDeserializer(theirs, rule_conf=SECRET, rule_registry=their_rules)
        assert reader(data, context(topic)) == ADA


def test_tags_of_metadata(registry: RegistryProcess, client: RegistryClient, topic: str) -> None:
    plain = json.loads(json.dumps(AVRO).replace('"confluent:tags": ["PII"]', '"doc": "x"'))
    metadata = {
        "tags": {"x.Person.s*": ["PII"], "**.street": ["PII"]},
        "properties": {"encrypt.kek.name": f"k-{topic}"},
    }
    rule = encrypting(topic)
    del rule["params"]["encrypt.kek.name"]
    registered(registry, topic, plain, rule, metadata=metadata)
    data = AvroSerializer(plain, client=client, config=LATEST | SECRET).serialize(topic, ADA)
    assert data is not None
    assert b"123-45" not in data
    assert b"Main" not in data
    assert b"Ada" in data
    assert AvroDeserializer(client=client, config=SECRET).deserialize(topic, data) == ADA


def person_class() -> Any:
    from confluent_kafka.schema_registry.confluent import meta_pb2

    meta: Any = meta_pb2
    file = descriptor_pb2.FileDescriptorProto(name="person.proto", package="x", syntax="proto3")
    file.dependency.append("confluent/meta.proto")
    message = file.message_type.add(name="Person")
    message.field.add(name="name", number=1, type=9, label=1)
    ssn = message.field.add(name="ssn", number=2, type=9, label=1)
    message.field.add(name="age", number=3, type=5, label=1)
    phones = message.field.add(name="phones", number=4, type=9, label=3)
    for field in (ssn, phones):
        field.options.Extensions[meta.field_meta].tags.append("PII")
    pool = descriptor_pool.DescriptorPool()
    for name in ("google/protobuf/descriptor.proto", "confluent/meta.proto"):
        known = descriptor_pb2.FileDescriptorProto()
        descriptor_pool.Default().FindFileByName(name).CopyToProto(known)
        pool.Add(known)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("x.Person"))


def test_protobuf(
    registry: RegistryProcess,
    client: RegistryClient,
    theirs: SchemaRegistryClient,
    their_rules: RuleRegistry,
    topic: str,
) -> None:
    person_type = person_class()
    text = base64.b64encode(person_type.DESCRIPTOR.file.serialized_pb).decode()
    rules = (condition("message.age > 18 && message.name != ''"), encrypting(topic))
    registered(registry, topic, text, *rules, schemaType="PROTOBUF")
    person = person_type(name="Ada", ssn="123-45", age=36, phones=["555", "556"])
    ours = ProtobufSerializer(client=client, config=LATEST | SECRET)
    data = ours.serialize(topic, person)
    assert person.ssn == "123-45", "the application's message is not changed"
    with pytest.raises(SerializationError, match="the rule checked failed"):
        ours.serialize(topic, person_type(name="Bob", age=3))
    their = their_protobuf.ProtobufSerializer(person_type, theirs, LATEST, SECRET, their_rules)
    copied = person_type()
    copied.CopyFrom(person)
    for payload in (data, their(copied, context(topic))):
        assert payload is not None
        assert b"123-45" not in payload
        assert b"555" not in payload
        assert ProtobufDeserializer(person_type, client=client, config=SECRET).deserialize(topic, payload) == person
        dynamic: Any = ProtobufDeserializer(client=client, config=SECRET).deserialize(topic, payload)
        assert (dynamic.ssn, list(dynamic.phones)) == ("123-45", ["555", "556"])
        reader = their_protobuf.ProtobufDeserializer(person_type, {}, theirs, SECRET, their_rules)
        assert reader(payload, context(topic)).ssn == "123-45"
