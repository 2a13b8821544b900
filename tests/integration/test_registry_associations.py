"""Associations of topics and subjects, with confluent-kafka's client; AssociatedNameStrategy of both serializers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry.common.schema_registry_client import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

import ottla.testing
from ottla.serdes import SerializationError
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.registry_client import RegistryClient
from tests.support.registries import RegistryProcess, registry_process

PERSON = '{"type":"record","name":"Person","namespace":"x","fields":[{"name":"name","type":"string"}]}'


@pytest.fixture(scope="module")
def registry(shared_cluster: ottla.testing.Cluster) -> Iterator[RegistryProcess]:
    with registry_process(shared_cluster.bootstrap) as process:
        yield process


def associated(topic: str, subject: str, kind: str = "value") -> AssociationCreateOrUpdateRequest:
    info = AssociationCreateOrUpdateInfo(subject=subject, association_type=kind, lifecycle="WEAK")
    return AssociationCreateOrUpdateRequest(
        resource_name=topic,
        resource_namespace="lkc-1",
        resource_id=f"id-{topic}",
        resource_type="topic",
        associations=[info],
    )


def test_associations(registry: RegistryProcess) -> None:
    topic, subject = f"t-{uuid.uuid4().hex[:8]}", f"s-{uuid.uuid4().hex[:8]}"
    with SchemaRegistryClient({"url": registry.url}) as client:
        with pytest.raises(SchemaRegistryError) as caught:
            client.create_association(associated(topic, subject))
        assert caught.value.error_code == 40907
        client.register_schema(subject, Schema(PERSON, "AVRO"))
        client.register_schema("another", Schema(PERSON, "AVRO"))
        for _ in range(2):
            created = client.create_association(associated(topic, subject))
            assert created.associations is not None
            assert [association.subject for association in created.associations] == [subject]
        with pytest.raises(SchemaRegistryError) as caught:
            client.create_association(associated(topic, "another"))
        assert (caught.value.http_status_code, caught.value.error_code) == (409, 40903)
        for namespace in ("-", "lkc-1"):
            associations = client.get_associations_by_resource_name(topic, namespace, "topic", ["value"])
            assert [(association.subject, association.association_type) for association in associations] == [
                (subject, "value")
            ]
        assert client.get_associations_by_resource_name(topic, "lkc-2", "topic", ["value"]) == []
        assert client.get_associations_by_resource_name(topic, "-", "topic", ["key"]) == []
        assert registry.code("DELETE", f"/subjects/{subject}") == (409, 40904)
        client.delete_associations(f"id-{topic}", "topic", ["value"])
        assert client.get_associations_by_resource_name(topic, "-", "topic", ["value"]) == []
        assert registry.code("DELETE", f"/associations/resources/id-{topic}") == (404, 40410)
        assert registry.ask("DELETE", f"/subjects/{subject}") == (200, [1])


def test_a_topic_has_one_association_of_a_type(registry: RegistryProcess) -> None:
    first, second = f"s-{uuid.uuid4().hex[:8]}", f"s-{uuid.uuid4().hex[:8]}"
    for subject in (first, second):
        registry.register(subject, PERSON)
    body: dict[str, Any] = {"resourceName": "both", "resourceNamespace": "lkc-1", "resourceId": "id-both"}
    body["associations"] = [{"subject": subject, "associationType": "value"} for subject in (first, second)]
    assert registry.code("POST", "/associations", body) == (422, 42212)
    assert registry.get("/associations/resources/id-both") == []
    assert registry.code("POST", "/associations", body | {"associations": 5}) == (422, 42212)


def test_serializers_write_under_the_associated_subject(registry: RegistryProcess) -> None:
    topic, subject = f"t-{uuid.uuid4().hex[:8]}", f"s-{uuid.uuid4().hex[:8]}"
    config: dict[str, Any] = {"subject.name.strategy": "AssociatedNameStrategy", "schema.registry.url": registry.url}
    context = SerializationContext(topic, MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as theirs:
        theirs.register_schema(subject, Schema(PERSON, "AVRO"))
        theirs.create_association(associated(topic, subject))
        ours = AvroSerializer(PERSON, config=config)
        data = ours.serialize(topic, {"name": "Ada"})
        conf = {"subject.name.strategy.type": "ASSOCIATED"}
        assert data == their_avro.AvroSerializer(theirs, PERSON, conf=conf)({"name": "Ada"}, context)
        assert their_avro.AvroDeserializer(theirs, conf=conf)(data, context) == {"name": "Ada"}
        reader = AvroDeserializer(config=config)
        assert reader.deserialize(topic, data) == {"name": "Ada"}
        assert f"{topic}-value" not in theirs.get_subjects()
        # Without an association the fallback strategy applies.
        ours.serialize(f"{topic}-2", {"name": "Ada"})
        assert f"{topic}-2-value" in theirs.get_subjects()
        strict = AvroSerializer(PERSON, config={**config, "subject.name.strategy.fallback.type": "NONE"})
        with pytest.raises(SerializationError, match="no subject is associated"):
            strict.serialize(f"{topic}-3", {"name": "Ada"})
        for serde in (ours, reader, strict):
            serde.close()
    client = RegistryClient(registry.url)
    with pytest.raises(ValueError, match="is not one of TOPIC, RECORD"):
        AvroSerializer(PERSON, client=client, config={**config, "subject.name.strategy.fallback.type": "x"})
    client.close()
